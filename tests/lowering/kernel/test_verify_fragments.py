"""Each rule for lane exchange, random numbers and layouts, broken on its own."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

KERNEL = """\
kernel good threads 128 cluster 1 grid 1 {
  param M: i32
  param W: i64
  global x: f32[M, M]
  t: frag<f32, 64x32> = frag.load_global x[0, 0]
  column: frag<f32, 64x1> = frag.load_global x[0, 0]
  u: frag<f32, 64x32, span 4> = frag.shuffle t
  noise: frag<f32, 64x32> = frag.random W, W + 1:i64, M, 32
  sum: frag<f32, 64x32> = frag.pointwise add, t, noise
  half: frag<bf16, 64x32> = frag.cast t
}
"""
SHUFFLE = "u: frag<f32, 64x32, span 4> = frag.shuffle t"
NOISE = "noise: frag<f32, 64x32> = frag.random W, W + 1:i64, M, 32"


def test_good() -> None:
    assert verify(parse_kernel(KERNEL)) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (SHUFFLE, SHUFFLE.replace("64x32", "64x16"),
         "u is frag<f32, 64x16, span 4>, t frag<f32, 64x32>: a shuffle changes the layout only"),
        (SHUFFLE, SHUFFLE.replace("f32", "bf16"),
         "u is frag<bf16, 64x32, span 4>, t frag<f32, 64x32>: a shuffle changes the layout only"),
        (SHUFFLE, SHUFFLE.replace(", span 4", ""),
         "from a span of 2 to one of 2, not twice or half as wide"),
        (SHUFFLE, SHUFFLE.replace("span 4", "span 8"),
         "from a span of 2 to one of 8, not twice or half as wide"),
        (SHUFFLE, "b: frag<e4m3, 64x32, span 1> = frag.fill 0.0 "
         "u: frag<e4m3, 64x32> = frag.shuffle b",
         "pieces of 1 e4m3; 16, 32 or 64 bits are exchanged"),
        (SHUFFLE, "b: frag<f32, 64x8> = frag.fill 0.0 "
         "u: frag<f32, 64x8, span 4> = frag.shuffle b",
         "frag<f32, 64x8, span 4> is not of whole groups"),
        (NOISE, NOISE.replace("f32", "bf16"), "frag.random gives f32, not bf16"),
        (NOISE, NOISE.replace("64x32", "60x32"),
         "60x32 is neither whole groups of 64 rows and 8 columns nor 1"),
        (NOISE, NOISE.replace("W,", "M,"), "seed is i32, frag.random takes i64"),
        (NOISE, NOISE.replace("W + 1:i64", "M"), "offset is i32, frag.random takes i64"),
        (NOISE, NOISE.replace(", M, 32", ", M < 1, 32"),
         "first is pred, frag.random counts in i32 or i64"),
        (NOISE, NOISE.replace(", M, 32", ", M, true"),
         "stride is pred, frag.random counts in i32 or i64"),
        ("frag.cast t", "frag.cast t, exponent=-6",
         "f32 times 2 ** -6 as bf16, of which there is no smaller one"),
        ("half: frag<bf16, 64x32>", "half: frag<bf16, 64x16>",
         "half is frag<bf16, 64x16>, t frag<f32, 64x32>: a cast changes no shape"),
        ("half: frag<bf16, 64x32>", "half: frag<bf16, 64x1>",
         "half is frag<bf16, 64x1>, t frag<f32, 64x32>: a cast changes no shape"),
        ("frag.pointwise add, t, noise", "frag.pointwise add, u, noise",
         "u is frag<f32, 64x32, span 4>, sum frag<f32, 64x32>: layouts differ"),
    ],
)  # fmt: skip
def test_broken(old: str, new: str, problem: str) -> None:
    assert KERNEL.count(old) == 1
    found = verify(parse_kernel(KERNEL.replace(old, new)))
    assert problem in [p.partition(", in: ")[0] for p in found]
    # The sum says that it does not broadcast, too.
    assert len(found) == 1 + ("60x32" in new)


PRODUCT = """\
kernel good threads 128 cluster 1 grid 1 {
  shared A: bf16[1][64x64] swizzle 128 at 0
  zero: frag<f32, 64x64> = frag.fill 0.0
  wgmma.fence
  one: frag<f32, 64x64, async> = wgmma zero, A[0, 0, 0], A[0, 0, 0]
  wgmma.commit
  near: frag<f32, 64x64, async> = wgmma.wait one, 1
  sum: frag<f32, 64x64> = wgmma.wait near, 0
}
"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("one: frag<f32, 64x64, async>", "one: frag<f32, 64x64>",
         "one is settled, which wgmma leaves in flight"),
        ("near: frag<f32, 64x64, async>", "near: frag<f32, 64x64>",
         "near is settled, with 1 groups pending"),
        ("near, 0", "near, 2", "sum is settled, with 2 groups pending"),
        ("sum: frag<f32, 64x64>", "sum: frag<f32, 64x64, async>", ""),
    ],
)  # fmt: skip
def test_sums_are_settled_by_a_wait_for_all_groups(old: str, new: str, problem: str) -> None:
    assert verify(parse_kernel(PRODUCT)) == []
    assert PRODUCT.count(old) == 1
    found = verify(parse_kernel(PRODUCT.replace(old, new)))
    assert [p.split(", in: ")[0] for p in found] == ([problem] if problem else [])
