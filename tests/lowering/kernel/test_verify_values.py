"""Each rule for the values and tensors of the epilogue, broken in a kernel that keeps them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

KERNEL = """\
kernel good threads 128 cluster 1 grid 1 {
  param M: i32
  tensormap A: bf16[M, M] box 64x64 swizzle 128
  global bias: bf16[1, M] align 4
  global scale: f32[M, 1]
  global out: f32[M, M]
  shared A_s: bf16[1][64x64] swizzle 128 at 0
  shared F_s: f32[1][64x32] swizzle 128 at 8192
  mbarrier full[1] arrivals 1 at 16384
  x: frag<f32, 64x64> = frag.fill 1.0
  row: frag<bf16, 1x64> = frag.load_global bias[0, 0]
  column: frag<f32, 64x1> = frag.load_global scale[0, 0]
  old: frag<bf16, 64x64> = ldmatrix A_s[0, 0, 0]
  wide: frag<f32, 64x32> = ld.shared F_s[0, 0, 0]
  outer: frag<f32, 64x64> = frag.pointwise mul, row, column
  sum: frag<f32, 64x64> = frag.pointwise add, x, old
  twice: frag<bf16, 64x64> = frag.pointwise add, old, row
  main: frag<f32, 64x64> = frag.fill 0.0
  main2: frag<f32, 64x64> = frag.update add, main, sum
  low: frag<pred, 64x64> = frag.pointwise lt, sum, 0.5
  not_low: frag<pred, 64x64> = frag.pointwise logical_not, low
  kept: frag<f32, 64x64> = frag.pointwise where, not_low, sum, -1.0
  elect {
    prefetch.tensormap A
    tma.load A_s[0, 0, 0], A[0, 0], bar=full[0]
  }
}
"""
ROW = "row: frag<bf16, 1x64> = frag.load_global bias[0, 0]"
LOW = "low: frag<pred, 64x64> = frag.pointwise lt, sum, 0.5"
KEPT = "kept: frag<f32, 64x64> = frag.pointwise where, not_low, sum, -1.0"
MAIN = "main2: frag<f32, 64x64> = frag.update add, main, sum"
LOAD = "tma.load A_s[0, 0, 0], A[0, 0], bar=full[0]"


def broken(old: str, new: str) -> list[str]:
    assert KERNEL.count(old) == 1
    return verify(parse_kernel(KERNEL.replace(old, new)))


def test_well_formed() -> None:
    assert verify(parse_kernel(KERNEL)) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (MAIN, MAIN.replace("add", "neg"), "neg takes 1 arguments, not 2"),
        (MAIN, MAIN.replace("sum", "wide"), "wide of 64x32 does not broadcast to 64x64"),
        (MAIN, MAIN.replace("64x64", "64x32"),
         "main2 is frag<f32, 64x32>, it takes the registers of frag<f32, 64x64>"),
        (MAIN, MAIN + ", col=4, cols=32", "columns 4 .. 36 of frag<f32, 64x64> are no part of it"),
        (MAIN, MAIN.replace("sum", "1.0") + ", col=48, cols=32",
         "columns 48 .. 80 of frag<f32, 64x64> are no part of it"),
        (MAIN, MAIN.replace("sum", "1.0") + ", row=64",
         "rows 64 .. 128 of frag<f32, 64x64> are no part of it"),
        (MAIN, MAIN.replace("sum", "1.0") + ", rows=32",
         "rows 0 .. 32 of frag<f32, 64x64> are no part of it"),
        (MAIN, MAIN + ", cols=32", "sum of 64x64 does not broadcast to 64x32"),
        (KEPT, "y: frag<f32, 64x64> = frag.update add, main, sum", "main is consumed twice"),
        (MAIN, "main2: frag<pred, 64x64> = frag.update lt, main, sum",
         "main2 is frag<pred, 64x64>, it takes the registers of frag<f32, 64x64>"),
        (KEPT, "y: frag<f32, 64x64> = frag.pointwise frob, sum",
         "no pointwise operation named frob"),
        (KEPT, "y: frag<f32, 64x64> = frag.pointwise add, sum", "add takes 2 arguments, not 1"),
        (KEPT, "y: frag<f32, 64x64> = frag.pointwise neg, sum, 1.0",
         "neg takes 1 arguments, not 2"),
        (KEPT, "y: frag<bf16, 64x64> = frag.pointwise neg, sum", "neg gives f32, not bf16"),
        (KEPT, "y: frag<bf16, 64x64> = frag.pointwise mul, old, old", "mul gives f32, not bf16"),
        (KEPT, "y: frag<bf16, 64x64> = frag.pointwise sub, old, column",
         "argument 2 of sub is f32, not bf16"),
        (KEPT, "y: frag<bf16, 64x64> = frag.pointwise sub, old, 0.1",
         "argument 2 of sub is 0.1, which bf16 has not"),
        (KEPT, "y: frag<bf16, 1x64> = frag.pointwise add, row, row",
         "add of pairs gives whole tiles, not 1x64"),
        (KEPT, "y: frag<bf16, 64x64> = frag.update add, old, old",
         "frag.update of bf16, which is not updated in place"),
        (KEPT, "y: frag<f32, 64x64> = frag.pointwise lt, sum, 0.0", "lt gives pred, not f32"),
        (KEPT, "y: frag<f32, 64x64> = frag.pointwise neg, low",
         "argument 1 of neg is pred, not a value"),
        (KEPT, "y: frag<f32, 64x64> = frag.pointwise where, x, sum, 0.0",
         "argument 1 of where is f32, not pred"),
        (KEPT, "y: frag<pred, 64x64> = frag.pointwise logical_and, low, sum",
         "argument 2 of logical_and is f32, not pred"),
        (KEPT, "y: frag<f32, 64x64> = frag.pointwise add, x, wide",
         "wide of 64x32 does not broadcast to 64x64"),
        (KEPT, "y: frag<f32, 1x64> = frag.pointwise add, row, column",
         "column of 64x1 does not broadcast to 1x64"),
        (KEPT, "y: frag<f32, 32x64> = frag.pointwise neg, 1.0",
         "32x64 is neither whole groups of 64 rows and 8 columns nor 1"),
        (ROW, "row: frag<bf16, 1x12> = frag.load_global bias[0, 0]",
         "1x12 is neither whole groups of 64 rows and 8 columns nor 1"),
        (ROW, ROW.replace("bf16", "f32"), "row is f32, bias holds bf16"),
        (ROW, ROW.replace("bias", "A"), "A is a tensor map, frag.load_global takes a global"),
        (ROW, ROW.replace("bias", "other"), "no storage named other"),
        (LOAD, LOAD.replace("A[", "bias["), "bias is a global, tma.load takes a tensor map"),
        ("prefetch.tensormap A", "prefetch.tensormap scale",
         "scale is a global, prefetch.tensormap takes a tensor map"),
        (KEPT, "store.tile bias[0, 0], x", "bias is a global, store.tile takes a tensor map"),
        (KEPT, "frag.store_global A[0, 0], x",
         "A is a tensor map, frag.store_global takes a global"),
        (KEPT, "frag.store_global out[0, 0], old", "old is bf16, out holds f32"),
        (KEPT, "frag.store_global out[0, 0], low", "low is pred, out holds f32"),
        (LOAD, "frag.store_global out[0, 0], x", "frag.store_global under elect"),
        (KEPT, "y: frag<f32, 64x64, async> = wgmma x, A_s[0, 0, 0], A_s[0, 0, 0]\n"
         "frag.store_global out[0, 0], y", "y is in flight"),
        (KEPT, "y: frag<f32, 64x64> = ldmatrix F_s[0, 0, 0]",
         "ldmatrix gives 16-bit elements, not f32"),
        (KEPT, "y: frag<bf16, 64x64> = ld.shared A_s[0, 0, 0]",
         "ld.shared gives 32-, 8- or 4-bit elements, not bf16"),
        (KEPT, "y: frag<f16, 64x64> = ldmatrix A_s[0, 0, 0]", "y is f16, A_s holds bf16"),
        (KEPT, "y: frag<bf16, 1x64> = ldmatrix A_s[0, 0, 0]",
         "ldmatrix gives whole tiles, not 1x64"),
        (KEPT, "y: frag<bf16, 64x12> = ldmatrix A_s[0, 0, 0]",
         "64x12 is neither whole groups of 64 rows and 8 columns nor 1"),
        (KEPT, "y: frag<pred, 64x64> = frag.cast low",
         "low is a predicate, which only frag.pointwise takes and gives"),
        (KEPT, "y: frag<pred, 64x32> = frag.fill 0.0",
         "y is a predicate, which only frag.pointwise takes and gives"),
        (KEPT, "st.shared F_s[0, 0, 0], low",
         "low is a predicate, which only frag.pointwise takes and gives"),
        (LOAD, "y: frag<bf16, 64x64> = ldmatrix A_s[0, 0, 0]", "ldmatrix under elect"),
        (LOAD, "y: frag<f32, 64x32> = ld.shared F_s[0, 0, 0]", "ld.shared under elect"),
        (LOAD, "y: frag<f32, 64x1> = frag.load_global scale[0, 0]",
         "frag.load_global under elect"),
        (KEPT, "nan: frag<f32, 64x64> = frag.fill 0.0", "nan reads as a number"),
        (KEPT, "y: frag<s32, 64x64> = frag.fill 0.5", "0.5 is no s32"),
        (KEPT, "y: frag<s32, 64x64> = frag.fill 2147483648.0", "2147483648.0 is no s32"),
        (KEPT, "y: frag<s32, 64x64> = frag.fill inf", "inf is no s32"),
        (KEPT, "y: frag<f32, 64x64, async> = wgmma x, old, A_s[0, 0, 0]",
         "old is frag<bf16, 64x64>, A in registers is frag<bf16, 64x16>"),
        (KEPT, "p: frag<f16, 64x16> = frag.fill 0.0\n"
         "y: frag<f32, 64x64, async> = wgmma x, p, A_s[0, 0, 0]",
         "no wgmma multiplies f16 by bf16 into f32"),
        (KEPT, "p: frag<e4m3, 64x32> = frag.fill 0.0\n"
         "y: frag<f32, 64x64, async> = wgmma x, p, A_s[0, 0, 0]",
         "p is frag<e4m3, 64x32>, A in registers is frag<e4m3, 64x32, span 4>"),
        (KEPT, "p: frag<bf16, 64x16> = frag.fill 0.0\n"
         "y: frag<f32, 64x64, async> = wgmma x, p, A_s[0, 0, 0], trans_a=true",
         "p is in registers, only A in shared memory is MN-major"),
        (KEPT, "y: frag<f32, 64x64> = mma.tile x, old, A_s[0, 0, 0], 32, true",
         "old is frag<bf16, 64x64>, A in registers is frag<bf16, 64x32>"),
        (KEPT, "p: frag<bf16, 64x16, async> = frag.fill 0.0\n"
         "y: frag<f32, 64x64, async> = wgmma x, p, A_s[0, 0, 0]", "p is in flight"),
        (KEPT, "y: frag<e4m3, 64x32, span 4> = ldmatrix A_s[0, 0, 0]",
         "y is e4m3, A_s holds bf16"),
        (KEPT, "y: frag<e4m3, 64x40, span 4> = ldmatrix A_s[0, 0, 0]",
         "64x40 is neither whole groups of 64 rows and 16 columns nor 1"),
        (KEPT, "y: frag<f32, 64x64, async> = wgmma x, A_s[0, 0, 0], A_s[0, 0, 0]\n"
         "z: frag<f32, 64x64> = frag.pointwise neg, y", "y is in flight"),
    ],
)  # fmt: skip
def test_broken(old: str, new: str, problem: str) -> None:
    assert f"{problem}, in: {new.splitlines()[-1]}" in broken(old, new)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("global scale: f32[M, 1]", "global A: f32[M, 1]",
         "A is declared twice, in: global A: f32[M, 1]"),
        ("global scale: f32[M, 1]", "global bias: f32[M, 1]",
         "bias is declared twice, in: global bias: f32[M, 1]"),
        ("align 4", "align 12", "align 12 is no power of two, in: global bias"),
        ("align 4", "align 0", "align 0 is no power of two, in: global bias"),
    ],
)  # fmt: skip
def test_broken_declaration(old: str, new: str, problem: str) -> None:
    assert problem in broken(old, new)


def test_a_fragment_of_another_type_as_an_argument() -> None:
    kernel = parse_kernel(KERNEL)
    bodies = tuple(
        replace(s, args=(replace(s.args[0], type=replace(s.args[0].type, cols=1)), s.args[1]))
        if getattr(s, "op", "") == "lt"
        else s
        for s in kernel.body
    )
    assert verify(replace(kernel, body=bodies)) == [
        f"sum is frag<f32, 64x64>, used as frag<f32, 64x1>, in: {LOW}"
    ]
