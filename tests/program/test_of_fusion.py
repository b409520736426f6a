"""The buffers of a fusion: a size that the definition fixes is a number wherever it occurs."""

from __future__ import annotations

import pytest

from tests.schedules import ping_pong
from wsched.front.known import import_fusion
from wsched.program.of_fusion import program_buffers
from wsched.program.program import Buffer
from wsched.run.compiled import compile_fusion
from wsched.run.finish import with_parts

TEXT = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, 64], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[72, 64], contiguity=[True, True], dtype=DataType.BFloat16)
    r = fd.define_tensor(shape=[-1, 1], contiguity=[True, None], dtype=DataType.Float)
    s = fd.define_scalar(None, dtype=DataType.Double)
    y = fd.ops.linear(x, w)
    f = fd.ops.mul(y, s)
    h = fd.ops.add(f, r)
    of_rows = fd.ops.sum(h, dims=[1])
    of_columns = fd.ops.sum(h, dims=[0])
    t = fd.ops.stride_order(y, stride_order=[0, 1])
    fd.add_output(t)
    fd.add_output(of_rows)
    fd.add_output(of_columns)
"""


def said(buffers: tuple[Buffer, ...]) -> list[str]:
    return [
        f"{b}: {', '.join(map(str, b.shape))} by {', '.join(map(str, b.steps))}" for b in buffers
    ]


@pytest.mark.parametrize(
    ("parts", "rows", "columns"),
    [
        (False, "out1: M by 1", "out2: 72 by 1"),
        (True, "out1: 2, M by M, 1", "out2: ceildiv(M, 64), 72 by 72, 1"),
    ],
)
def test_sizes(parts: bool, rows: str, columns: str) -> None:
    """Of inputs, of a result that lies otherwise than it is given, and of reductions, whole or in
    the parts that tiles of 64 by 64 make.
    """
    kernel = compile_fusion(import_fusion(TEXT), ping_pong(64, 64))
    inputs, outputs = program_buffers(with_parts(kernel.plan).fusion if parts else kernel.fusion)
    assert said(inputs) == [
        "in0: M, 64 by 64, 1", "in1: 72, 64 by 64, 1", "in2: M, 1 by 1, 1", "in3:  by ",
    ]  # fmt: skip
    assert not inputs[3].is_known
    assert said(outputs) == ["out0: M, 72 by 1, M", rows, columns]
