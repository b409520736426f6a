"""What products are rounded to, and whether anything else reads their sums."""

from __future__ import annotations

import pytest

from tests.epilogues import epilogue
from wsched.front.known import import_fusion
from wsched.fusion import MmaOp, roundings

FP32, BF16 = "dtype=DataType.Float", "dtype=DataType.BFloat16"
SAID = f"y = fd.ops.linear(x, w, {FP32})"


@pytest.mark.parametrize(
    ("lines", "sums", "again", "alone"),
    [
        pytest.param(["d = fd.ops.tanh(y)"], 1, 1, True, id="widened"),
        pytest.param(["d = fd.ops.relu(y)"], 1, 0, True, id="stored"),
        pytest.param(
            ["b: [-1]", "y = fd.ops.linear(x, w, b)", "d = fd.ops.tanh(y)"], 2, 1, True, id="a bias"
        ),
        pytest.param(
            [SAID, "t = fd.ops.tanh(y)", "p = fd.ops.mul(t, y)", f"c = fd.ops.cast(y, {BF16})",
             "m = fd.ops.mul(p, c)", f"d = fd.ops.cast(m, {BF16})"],
            1, 1, False, id="read in fp32 as well",
        ),
    ],
)  # fmt: skip
def test_a_cast_of_sums(lines: list[str], sums: int, again: int, alone: bool) -> None:
    fusion = import_fusion(epilogue(*lines))
    (found,) = roundings(fusion)
    assert isinstance(fusion.definition(found.sums[0]), MmaOp)
    assert fusion.definition(found.output) in fusion.uses(found.sums[-1])
    assert (len(found.sums), len(found.again), found.alone) == (sums, again, alone)
    assert found.tensors == (*found.sums, found.output, *found.again)


def test_what_is_computed_of_sums_in_fp32_is_none() -> None:
    lines = SAID, "t = fd.ops.tanh(y)", f"c = fd.ops.cast(t, {BF16})", "d = fd.ops.neg(c)"
    assert roundings(import_fusion(epilogue(*lines))) == ()
