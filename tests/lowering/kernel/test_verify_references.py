"""Each rule for shapes and coordinates, broken in a kernel that keeps them."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

KERNEL = """\
kernel good threads 128 cluster 1 grid 1 {
  param M: i32
  param W: i64
  tensormap A: bf16[M, M, M] box 1x64x64 clipped swizzle 128
  tensormap P: bf16[2, M, M] box 2x64x64 swizzle 128
  tensormap V: bf16[M]
  global bias: bf16[M, 1, M]
  global list: f32[M]
  shared A_s: bf16[2][64x64] swizzle 128
  shared P_s: bf16[1][2x64x64] swizzle 128
  shared V_s: bf16[1][64]
  row: frag<bf16, 1x64> = frag.load_global bias[M, 0, 0]
  line: frag<f32, 1x64> = frag.load_global list[0]
  tile: frag<bf16, 64x64> = ldmatrix P_s[0, 1, 0, 0]
  load.tile A_s[0, 0, 0], A[M, 0, 0]
  load.tile V_s[0, 0], V[0]
  elect {
    tma.load A_s[0, 0, 0], A[M, 0, 0]
    tma.load P_s[0, 0, 0, 0], P[0, M, 0]
  }
}
"""


def problems(*changes: tuple[str, str]) -> list[str]:
    text = KERNEL
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    return verify(parse_kernel(text))


def test_good() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("param W: i64", "param W: i64 tensormap U: bf16[1, 1, 1, 1, 1, M]",
         "6 dimensions, TMA takes 1 to 5, in: tensormap U"),
        ("V: bf16[M]", "V: bf16[M] box 1x64",
         "a box of 1x64 for 1 dimension, in: tensormap V"),
        ("P: bf16[2, M, M] box 2x64x64", "P: bf16[2, M, M] box 2x64x64 clipped",
         "a box of 2x64x64 is not one matrix, whose rows could be clipped, in: tensormap P"),
        ("V: bf16[M]", "V: bf16[M] box 64 clipped",
         "a box of 64 is not one matrix, whose rows could be clipped, in: tensormap V"),
        ("load.tile A_s[0, 0, 0], A[M, 0, 0]", "load.tile A_s[0, 0, 0], A[M, 0]",
         "A has 3 dimensions, not 2, in: load.tile A_s[0, 0, 0], A[M, 0]"),
        ("load.tile A_s[0, 0, 0], A[M, 0, 0]", "load.tile A_s[0, 0], A[M, 0, 0]",
         "A_s has 2 dimensions, not 1, in: load.tile A_s[0, 0], A[M, 0, 0]"),
        ("list[0]", "list[0, 0]",
         "list has 1 dimension, not 2, "
         "in: line: frag<f32, 1x64> = frag.load_global list[0, 0]"),
        ("bias[M, 0, 0]", "bias[M, 0]",
         "bias has 3 dimensions, not 2, "
         "in: row: frag<bf16, 1x64> = frag.load_global bias[M, 0]"),
        ("line: frag<f32, 1x64>", "line: frag<f32, 64x64>",
         "64 rows of list, which has one dimension, "
         "in: line: frag<f32, 64x64> = frag.load_global list[0]"),
        ("tma.load A_s[0, 0, 0], A[M, 0, 0]", "tma.load A_s[0, 0, 0], A[M, W, 0]",
         "coordinate W is i64, TMA takes i32, in: tma.load A_s[0, 0, 0], A[M, W, 0]"),
        ("load.tile V_s[0, 0], V[0]", "load.tile P_s[0, 0, 0, 0], V[0]",
         "3 dimensions of P_s from 1 in memory, in: load.tile P_s[0, 0, 0, 0], V[0]"),
        ("tma.load P_s[0, 0, 0, 0], P[0, M, 0]", "tma.load A_s[0, 0, 0], P[0, M, 0]",
         "a box of 2x64x64 is 128 lines of 64, A_s has 64 of 64, "
         "in: tma.load A_s[0, 0, 0], P[0, M, 0]"),
        ("shared A_s: bf16[2][64x64] swizzle 128", "shared A_s: bf16[2][64x64] swizzle 64",
         "a box of 1x64x64 is 64 lines of 64, A_s has 64 of 32, "
         "in: tma.load A_s[0, 0, 0], A[M, 0, 0]"),
    ],
)  # fmt: skip
def test_problem(before: str, after: str, problem: str) -> None:
    assert problems((before, after)) == [problem]
