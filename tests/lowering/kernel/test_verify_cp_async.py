"""Each rule of ``cp.async``, broken on its own."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

KERNEL = """\
kernel good threads 128 cluster 1 grid 1 {
  param M: i32
  global x: bf16[M, M] align 16
  global y: bf16[M, M] align 8
  global z: bf16[M] align 16
  global order: s32[M, 1]
  tensormap T: bf16[M, M]
  shared S: bf16[2][128x64] swizzle 128
  shared F: f32[2][128x64] swizzle 128
  shared N: bf16[2][128x64] swizzle 32
  mbarrier full[1] arrivals 128
  near: frag<s32, 128x1> = frag.load_global order[0, 0]
  cp.async S[1, 0, 0], x[M, 8], 128, 64, limit=M, index=near
  cp.async.mbarrier.arrive.noinc full[0]
}
"""
COPY = "cp.async S[1, 0, 0], x[M, 8], 128, 64, limit=M, index=near"


def test_good() -> None:
    assert verify(parse_kernel(KERNEL)) == []


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        ("cp.async S[1, 0, 0], x[M, 8], 32, 64", "cp.async copies whole groups of 64 rows, not 32"),
        ("cp.async S[1, 0, 0], x[M, 8], 64, 64, index=near",
         "near is frag<s32, 128x1>, an index of 64 rows is frag<s32, 64x1>"),
        ("cp.async S[1, 0, 0], y[M, 8], 64, 64", "y is aligned to 8 bytes, cp.async takes 16"),
        ("cp.async S[1, 0, 0], z[8], 64, 64", "cp.async of z, which has one dimension"),
        ("cp.async S[1, 0, 0], T[M, 8], 64, 64", "T is a tensor map, cp.async takes a global"),
        ("cp.async F[1, 0, 0], x[M, 8], 64, 64", "x holds bf16, F f32"),
        ("cp.async S[1, 0, 0], x[M, 8], 192, 64",
         "a tile of 192x64 does not fit into S of 128x64"),
        ("cp.async S[1, 0, 0], x[M, 8], 64, 48",
         "cp.async of 64x48 has lines of 96 bytes, not whole 64"),
        ("cp.async N[1, 0, 0], x[M, 8], 64, 64", "N has lines of 32 bytes, not whole 64"),
        ("cp.async.mbarrier.arrive.noinc empty[0]", "no storage named empty"),
        ("elect { cp.async S[1, 0, 0], x[M, 8], 64, 64 }", "cp.async under elect"),
    ],
)  # fmt: skip
def test_broken(after: str, problem: str) -> None:
    stmt = after.removeprefix("elect { ").removesuffix(" }")
    assert verify(parse_kernel(KERNEL.replace(COPY, after))) == [f"{problem}, in: {stmt}"]
