"""The table of a matrix instruction: which types go together, and how many columns they have."""

from __future__ import annotations

from itertools import product

import pytest

from lowering.ground.dtypes import STORED, DType
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.target.hopper import WGMMA

F16, BF16, TF32, F32 = DType.F16, DType.BF16, DType.TF32, DType.F32
E4M3, E5M2, S8, U8, S32 = DType.E4M3, DType.E5M2, DType.S8, DType.U8, DType.S32

TAKEN = {
    (F16, F16, F32), (F16, F16, F16), (BF16, BF16, F32), (TF32, TF32, F32),
    *product((E4M3, E5M2), (E4M3, E5M2), (F32, F16)), *product((S8, U8), (S8, U8), (S32,)),
}  # fmt: skip
"""What ptxas 12.8 and 13.0 take (b1 aside)."""


def test_types_that_go_together() -> None:
    assert {t for t in product(STORED, repeat=3) if WGMMA.form(*t)} == TAKEN
    assert WGMMA.types == (
        "f16 by f16 into f32 or f16", "bf16 by bf16 into f32", "tf32 by tf32 into f32",
        "e4m3 or e5m2 by e4m3 or e5m2 into f32 or f16", "s8 or u8 by s8 or u8 into s32",
    )  # fmt: skip
    assert {d for d in STORED if WGMMA.transposes(d)} == {F16, BF16}


def test_columns() -> None:
    eights = [n for n in range(1, 300) if WGMMA.problem(E4M3, E5M2, F32, n) is None]
    assert eights == list(range(8, 257, 8))
    integers = [n for n in range(1, 300) if WGMMA.problem(S8, U8, S32, n) is None]
    assert integers == [8, 16, 24, *range(32, 257, 16)]


def test_problems_in_words() -> None:
    assert WGMMA.problem(BF16, BF16, F16, 64) == "no wgmma multiplies bf16 by bf16 into f16"
    assert WGMMA.problem(S8, U8, S32, 40) == (
        "N of a wgmma of s8 by u8 is 8, 24, or a multiple of 16 from 16 to 256, not 40"
    )


PRODUCT = """
kernel k threads 128 cluster 1 grid 1 {
  shared A: s8[1][64x128] swizzle 128
  shared B: u8[1][40x128] swizzle 128
  zero: frag<s32, 64x40> = frag.fill 0.0
  wgmma.fence
  acc: frag<s32, 64x40, async> = wgmma zero, A[0, 0, 0], B[0, 0, 0]
}
"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("x", "x", "N of a wgmma of s8 by u8 is 8, 24, or a multiple of 16 from 16 to 256, not 40"),
        ("u8", "e4m3", "no wgmma multiplies s8 by e4m3 into s32"),
        ("s32", "f32", "no wgmma multiplies s8 by u8 into f32"),
    ],
)
def test_verify_asks_the_table(old: str, new: str, problem: str) -> None:
    text = PRODUCT.replace(old, new)
    stmt = text.splitlines()[-2].strip()
    assert verify(parse_kernel(text)) == [f"{problem}, in: {stmt}"]
