"""Reductions in cuts: in the kernel where they are, what reads them behind it."""

from __future__ import annotations

import pytest

import wsched
from tests.reductions import ALL, definition, expected
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter
from wsched.front.known import recorded
from wsched.importer import Definition

torch = pytest.importorskip("torch")

MEAN = (
    definition(ALL[:2])
    .replace("    fd.add_output(y)", "    mean = fd.ops.mul(r0, 0.5)\n    fd.add_output(y)")
    .replace("fd.add_output(r0)", "fd.add_output(mean)")
)
"""A sum that an operation reads, and one that is a result."""


def read(text: str) -> Definition:
    found = recorded(text)
    assert isinstance(found, Definition)
    return found


@pytest.mark.parametrize("take", [Take.ALL, Take.NARROW])
def test_segments(take: Take) -> None:
    """Fp32 parts are small: they may leave the kernel where wide matrices may not."""
    kernel, rest = Cutter(read(MEAN)).all(take).segments
    assert (kernel.matmul, kernel.outputs) == (True, ("y", "r0", "r1"))
    assert [n.op for n in rest.definition.nodes if not n.is_input] == ["mul"]


def test_nothing_taken() -> None:
    kernel, rest = Cutter(read(MEAN)).all(Take.NONE).segments
    assert [n.op for n in kernel.definition.nodes if not n.is_input] == ["linear"]
    assert {"sum", "mul"} <= {n.op for n in rest.definition.nodes}


@pytest.mark.slow
def test_executed() -> None:
    torch.manual_seed(0)
    shapes = (200, 72), (136, 72), (136,)
    given = tuple(torch.randint(-2, 3, s).bfloat16() for s in shapes)
    y, sums, rows = expected(ALL[:2], *given)
    found = wsched.execute(MEAN, given)
    wanted = [y, sums / 2, rows]
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
