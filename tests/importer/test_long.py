"""Definitions of many operations: longer than the interpreter's stack, and read twice at each."""

from __future__ import annotations

import sys

import pytest

from lowering.ground.errors import UnsupportedError
from tests.epilogues import chain, epilogue
from wsched.fusion import PointwiseOp
from wsched.importer import build_fusion, record_text

LENGTH = 2 * sys.getrecursionlimit()


@pytest.mark.parametrize("call", ["add({0}, 1.5)", "mul({0}, {0})"])
def test_a_chain(call: str) -> None:
    """Of operations that read one value twice each way to the first would be one of 2 ** 2000."""
    fusion = build_fusion(record_text(chain([call], LENGTH)))
    assert sum(isinstance(e, PointwiseOp) for e in fusion.exprs) == LENGTH


def test_the_first_refusal_is_still_the_last_operation() -> None:
    """What is demanded first is refused first, whatever stands behind it."""
    text = chain(["tan({0})"], 3).replace("v2 = fd.ops.tan(v1)", "v2 = fd.ops.sinh(v1)")
    with pytest.raises(UnsupportedError, match=r"fd\.ops\.sinh"):
        build_fusion(record_text(text))


def test_constants_of_constants() -> None:
    """A chain of them, the last of which is what an operation reads."""
    lines = ["c0 = fd.define_scalar(1.0, dtype=DataType.Double)"]
    lines += [f"c{n + 1} = fd.ops.add(c{n}, c{n})" for n in range(60)]
    text = epilogue(*lines, "d = fd.ops.mul(y, c60)")
    (made,) = (e for e in build_fusion(record_text(text)).exprs if isinstance(e, PointwiseOp))
    assert made.inputs[1] == 2.0**60
