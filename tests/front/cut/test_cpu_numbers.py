"""Tensors of one number on the CPU: a temperature, a learning rate."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from wsched.doors.fallback import interpret
from wsched.front.cut.segments import Cutter
from wsched.importer import record_text
from wsched.importer.input_error import InputError

torch: Any = pytest.importorskip("torch")

MATRIX = "contiguity=[True, True], dtype=DataType.BFloat16, is_cpu=False"


def text(*lines: str, kind: str = "shape=[], dtype=DataType.Float", result: str = "d") -> str:
    """Lines that make d of ``y``, which is x · wᵀ, and ``s``, a number on the CPU."""
    head = (
        "def nvfuser_fusion(fd : FusionDefinition) -> None :",
        f"s = fd.define_tensor({kind}, is_cpu=True)",
        f"x = fd.define_tensor(shape=[-1, -1], {MATRIX})",
        f"w = fd.define_tensor(shape=[-1, -1], {MATRIX})",
        "y = fd.ops.linear(x, w)",
    )
    return "\n    ".join((*head, *lines, f"fd.add_output({result})")) + "\n"


SCALED = ("m = fd.ops.mul(y, s)", "d = fd.ops.cast(m, dtype=DataType.BFloat16)")


def given(value: float, dtype: Any = torch.float32) -> list[Any]:
    draw = torch.Generator().manual_seed(0)
    sizes = (32, 48), (48, 48)
    return [
        torch.tensor(value, dtype=dtype),
        *(torch.randint(-3, 4, s, generator=draw).bfloat16() for s in sizes),
    ]


TWO_LAYERS = (
    *SCALED, "z = fd.ops.linear(d, w)", "a = fd.ops.add(z, s)",
    "e = fd.ops.cast(a, dtype=DataType.BFloat16)",
)  # fmt: skip


AS_PRINTED = (
    "f = fd.ops.cast(y, dtype=DataType.Float)", "c = fd.ops.cast(s, dtype=DataType.Float)",
    "b = fd.ops.broadcast(c, is_broadcast_dim=[True, True])", "m = fd.ops.mul(f, b)",
    "a = fd.ops.add(m, b)", "d = fd.ops.cast(a, dtype=DataType.BFloat16)",
)  # fmt: skip
"""As nvFuser writes operands without dimensions."""


@pytest.mark.parametrize(
    "definition", [text(*SCALED), text(*AS_PRINTED), text(*TWO_LAYERS, result="e")]
)
def test_every_call_has_its_own(definition: str) -> None:
    assert {p.runs for p in wsched.explain(definition, given(0.5)).parts} == {"wsched"}
    for value in (0.5, 2.0, 0.5):
        (wanted,) = interpret(record_text(definition), given(value))
        (found,) = wsched.execute(definition, given(value))
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("kind", ["BFloat16", "Half", "Double"])
def test_types(kind: str) -> None:
    definition = text(*SCALED, kind=f"shape=[], dtype=DataType.{kind}")
    dtype = {"BFloat16": torch.bfloat16, "Half": torch.half, "Double": torch.double}[kind]
    (wanted,) = interpret(record_text(definition), given(0.25, dtype))
    (found,) = wsched.execute(definition, given(0.25, dtype))
    assert torch.equal(found, wanted) and found.dtype is torch.bfloat16


@pytest.mark.parametrize("constants", [[0], [0, 2]])
def test_it_is_no_constant(constants: list[int]) -> None:
    """Whoever says so: a weight that it scales is scaled in each call."""
    definition = text(
        "v = fd.ops.mul(w, s)", "r = fd.ops.cast(v, dtype=DataType.BFloat16)",
        "d = fd.ops.linear(x, r)",
    )  # fmt: skip
    inputs = given(0.5)
    for value in (0.5, 2.0):
        inputs[0].fill_(value)
        (wanted,) = interpret(record_text(definition), inputs)
        (found,) = wsched.execute(definition, inputs, constants=constants)
        assert torch.equal(found, wanted)


def test_given_back_is_the_tensor_itself() -> None:
    inputs = given(0.5)
    number, x, _ = wsched.execute(text(*SCALED, "fd.add_output(s)", "fd.add_output(x)"), inputs)
    assert number is inputs[0] and x is inputs[1]


@pytest.mark.parametrize(
    "definition",
    [
        text(
            "b = fd.ops.broadcast(s, is_broadcast_dim=[True, True])",
            "e = fd.ops.expand(b, shape=[32, 48])",
            "d = fd.ops.mul(y, e)",
        ),
        text("b = fd.ops.broadcast(s, is_broadcast_dim=[True, True])", *SCALED, "fd.add_output(b)"),
        text("c = fd.ops.cast(s, dtype=DataType.BFloat16)", "d = fd.ops.mul(y, c)"),
        text("d = fd.ops.neg(y)", "t = fd.ops.neg(s)", "fd.add_output(t)"),
        text("i = fd.ops.cast(y, dtype=DataType.Int)", "d = fd.ops.mul(i, s)"),
        text(*SCALED, kind="shape=[], dtype=DataType.Int"),
        text(*SCALED, kind="shape=[1], contiguity=[True], dtype=DataType.Float"),
    ],
    ids=[
        "expanded",
        "broadcast and returned",
        "rounded",
        "alone",
        "beside integers",
        "an integer",
        "with a dimension",
    ],
)
def test_what_is_more_than_a_number(definition: str) -> None:
    with pytest.raises(UnsupportedError, match="s with is_cpu=True"):
        Cutter(record_text(definition))


def test_inputs_that_are_none() -> None:
    definition, (_, *others) = text(*SCALED), given(0.5)
    with pytest.raises(InputError, match="input 0"):
        wsched.execute(definition, [torch.ones(2), *others])
    with pytest.raises(InputError, match="input 0"):
        wsched.execute(definition, [torch.tensor(1), *others])


def test_a_plan_without_memory() -> None:
    """For a GPU that is not there inputs may have none."""
    sizes = (), (4096, 1024), (2048, 1024)
    kinds = torch.float32, torch.bfloat16, torch.bfloat16
    inputs = [torch.empty(s, dtype=k, device="meta") for s, k in zip(sizes, kinds, strict=True)]
    told = str(wsched.explain(text(*SCALED), inputs, gpu="H200"))
    assert "under wsched.install(): 1 kernel of wsched's" in told
