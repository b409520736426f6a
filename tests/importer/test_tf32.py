"""Which inputs of fp32 may be read as TF32: those that matmuls multiply, and nothing else reads."""

from __future__ import annotations

import pytest

from wsched.fusion import DataType
from wsched.importer import Definition, record_text
from wsched.importer.tf32 import as_tf32, tf32_inputs

INPUTS = {
    "x": "[-1, -1]", "w": "[-1, -1]", "b": "[-1]", "c": "[-1, -1, -1]",
    "h": "[-1, -1], dtype=DataType.BFloat16",
}  # fmt: skip


def definition_of(*lines: str) -> Definition:
    made = [f"{n} = fd.define_tensor(shape={s})" for n, s in INPUTS.items()]
    made = [m if "dtype" in m else m.replace("])", "], dtype=DataType.Float)") for m in made]
    return record_text(
        "\n    ".join(["def nvfuser_fusion(fd: FusionDefinition) -> None:", *made, *lines]) + "\n"
    )


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (("y = fd.ops.linear(x, w)",), "wx"),
        (("y = fd.ops.linear(x, x)",), "x"),
        (("y = fd.ops.linear(x, w, b)",), "wx"),
        (("y = fd.ops.linear(h, h)",), ""),
        (("y = fd.ops.matmul(x, h)",), "x"),
        (("t = fd.ops.permute(w, dims=[1, 0])", "y = fd.ops.matmul(x, t)"), "wx"),
        (("t = fd.ops.permute(w, dims=[1, 0])", "u = fd.ops.stride_order(t, stride_order=[1, 0])",
          "y = fd.ops.matmul(x, u)"), "wx"),
        (("t = fd.ops.set(w)", "y = fd.ops.linear(x, t)"), "x"),
        (("t = fd.ops.broadcast(w, is_broadcast_dim=[True, False, False])",
          "y = fd.ops.matmul(c, t)"), "cw"),
        # what is computed is no input, and what it is computed of is read by that
        (("r = fd.ops.relu(x)", "y = fd.ops.linear(r, w)"), "w"),
        (("r = fd.ops.linear(x, w)", "y = fd.ops.matmul(r, w)"), "wx"),
        # what somebody else reads as well, before a step that moves it or behind
        (("r = fd.ops.relu(x)", "y = fd.ops.linear(x, w)", "fd.add_output(r)"), "w"),
        (("t = fd.ops.permute(w, dims=[1, 0])", "r = fd.ops.relu(t)", "y = fd.ops.matmul(x, t)",
          "fd.add_output(r)"), "x"),
        (("t = fd.ops.permute(w, dims=[1, 0])", "y = fd.ops.matmul(x, t)", "fd.add_output(t)"),
         "x"),
        (("y = fd.ops.linear(x, w, b)", "z = fd.ops.add(y, b)", "fd.add_output(z)"), "wx"),
        (("v = fd.ops.squeeze(w, dims=[0])", "y = fd.ops.linear(x, w, v)"), "x"),
        (("y = fd.ops.linear(x, w)", "fd.add_output(x)"), "w"),
        (("y = fd.ops.linear(x, w)", "z = fd.ops.neg(y)", "fd.add_output(z, x)"), "w"),
        (("y = fd.ops.relu(x)",), ""),
    ],
)  # fmt: skip
def test_inputs(lines: tuple[str, ...], wanted: str) -> None:
    definition = definition_of(*lines, "fd.add_output(y)")
    found = tf32_inputs(definition)
    assert "".join(sorted(found)) == wanted
    made = as_tf32(definition, found)
    for before, after in zip(definition.nodes, made.nodes, strict=True):
        if before.is_input and before.results[0] in found:
            assert before.get("dtype") is DataType.Float and after.get("dtype") is DataType.TF32
            assert dict(before.kwargs) | {"dtype": None} == dict(after.kwargs) | {"dtype": None}
        else:
            assert before == after
    assert made.outputs == definition.outputs


def test_an_input_that_says_no_type_is_one_of_fp32() -> None:
    definition = record_text(
        "def nvfuser_fusion(fd: FusionDefinition) -> None:\n"
        "    x = fd.define_tensor(shape=[-1, -1])\n"
        "    w = fd.define_tensor(shape=[-1, -1], dtype=DataType.Half)\n"
        "    fd.add_output(fd.ops.linear(x, w))\n"
    )
    assert tf32_inputs(definition) == {"x"}
