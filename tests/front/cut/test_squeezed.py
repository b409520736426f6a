"""``squeeze_expanded``: what is repeated is taken once, whether or not memory has it once."""

from __future__ import annotations

import re
from typing import Any

import pytest

import wsched
from wsched.front.cut.route import cutter_of
from wsched.importer import record_text
from wsched.importer.input_error import InputError

torch: Any = pytest.importorskip("torch")

from tests.programs_judged import Judge  # noqa: E402  (it imports torch)

CAST = """
f = fd.ops.cast(e, dtype=DataType.Float)
q = fd.ops.squeeze(f, dims=[0], squeeze_expanded=True)
s = fd.ops.sum(q, dims=[0])
y = fd.ops.linear(e, w)
fd.add_output(s)
"""
EPILOGUE = """
l = fd.ops.linear(e, w)
q = fd.ops.squeeze(l, dims=[0], squeeze_expanded=True)
y = fd.ops.relu(q)
"""
LOSS = """
l = fd.ops.linear(e, w)
f = fd.ops.cast(l, dtype=DataType.Float)
m = fd.ops.max(f, dims=[2], keepdim=True)
q = fd.ops.squeeze(m, dims=[0, 2], squeeze_expanded=True)
s = fd.ops.sum(q, dims=[0])
y = fd.ops.mul(s, 2.0)
"""
OPERAND = """
f = fd.ops.relu(e)
q = fd.ops.squeeze(f, dims=[-3], squeeze_expanded=True)
y = fd.ops.linear(q, w)
"""
INPUT = "y = fd.ops.linear(fd.ops.squeeze(x, dims=[0], squeeze_expanded=True), w)"


def text(body: str, shape: tuple[int, ...] = (16, 32)) -> str:
    spread = """
    b = fd.ops.broadcast(x, is_broadcast_dim=[True, False, False])
    e = fd.ops.expand(b, shape=[2, 16, 32])
    """
    lines = [
        f"x = fd.define_tensor(shape={list(shape)}, dtype=DataType.BFloat16, is_cpu=False)",
        "w = fd.define_tensor(shape=[24, 32], dtype=DataType.BFloat16, is_cpu=False)",
        *(spread if len(shape) == 2 else "").strip().splitlines(),
        *body.strip().splitlines(),
        "fd.add_output(y)",
    ]
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
    return head + "".join(f"    {line.strip()}\n" for line in lines)


def given(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).bfloat16()


@pytest.mark.parametrize("body", [CAST, EPILOGUE, LOSS, OPERAND])
def test_of_what_is_repeated(body: str) -> None:
    inputs = [given(16, 32), given(24, 32)]
    judge = Judge(text(body), inputs)
    assert judge.wrong(wsched.execute(text(body), inputs)) == ""
    made = wsched.explain(text(body), inputs, gpu="H200")
    assert made.route == "cut" and all(fate.kernel for fate in made.matmuls)


@pytest.mark.parametrize("repeated", [True, False])
def test_of_an_input(repeated: bool) -> None:
    """Which has no elements of its own there; nvFuser takes no other either."""
    x = given(1, 16, 32).expand(2, 16, 32) if repeated else given(2, 16, 32)
    inputs, told = [x, given(24, 32)], text(INPUT, (2, 16, 32))
    if repeated:
        assert Judge(told, inputs).wrong(wsched.execute(told, inputs)) == ""
        return
    what = "line 4: fd.ops.squeeze of [[2, 16, 32]]: dimension 0 of extent 2 is squeezed"
    for run in (wsched.execute, wsched.explain):
        with pytest.raises(InputError, match=re.escape(what)):
            run(told, inputs)


def test_ones_are_squeezed_still() -> None:
    made = cutter_of(record_text(text(LOSS))).definition.nodes
    found = [(n.op, n.get("dim"), n.get("dims")) for n in made if n.op in ("select", "squeeze")]
    assert found == [("select", 0, None), ("squeeze", None, (1,))]
