"""Each rule for reductions, broken on its own."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

KERNEL = """\
kernel good threads 128 cluster 1 grid 1 {
  param M: i32
  param W: i64
  global x: f32[M, M]
  global h: bf16[M, M]
  shared S: f32[1][8x64] at 0
  shared T: f32[1][64x32] swizzle 128 at 2048
  t: frag<f32, 128x64> = frag.load_global x[0, 0]
  half: frag<bf16, 128x64> = frag.load_global h[0, 0]
  wide: frag<f32, 128x64, span 4> = frag.load_global x[0, 0]
  zero: frag<f32, 64x1> = frag.fill 0.0
  line: frag<f32, 1x64> = frag.fill 0.0
  column: frag<f32, 64x1> = frag.reduce sum, zero, t
  frag.reduce_to_shared sum, S[0, 0, 0], t
  cta.sync
  row: frag<f32, 1x64> = frag.reduce_from_shared sum, line, S[0, 0, 0], 4
  counts: frag<pred, 128x1> = frag.below M
  none: frag<f32, 1x64> = frag.fill 0.0
  all: frag<f32, 1x64> = frag.reduce_rows sum, none, t, below=counts
  inside: frag<pred, 64x1> = frag.below M - 1
  frag.red_global max, x[0, 0], row
  frag.store_reduced min, x[0, 0], S[0, 4, 0], 4, 64
}
"""
COLUMN = "column: frag<f32, 64x1> = frag.reduce sum, zero, t"
STORED = "frag.reduce_to_shared sum, S[0, 0, 0], t"
ROW = "row: frag<f32, 1x64> = frag.reduce_from_shared sum, line, S[0, 0, 0], 4"
ALL = "all: frag<f32, 1x64> = frag.reduce_rows sum, none, t, below=counts"
BELOW = "inside: frag<pred, 64x1> = frag.below M - 1"
STORE = "frag.store_reduced min, x[0, 0], S[0, 4, 0], 4, 64"
RED = "frag.red_global max, x[0, 0], row"
ADD = "frag.red_global add, h[0, 0], half, any_order=true"


def test_good() -> None:
    assert verify(parse_kernel(KERNEL)) == []


def taken(name: str, kind: str, op: str = "sum") -> str:
    """A statement that reduces ``t`` to a fragment of another kind."""
    return (
        f"start: frag<f32, {kind}> = frag.fill 0.0 "
        f"{name}: frag<f32, {kind}> = frag.reduce {op}, start, t"
    )


FOLDS = "a tile of 128x64 is reduced to 128 or 64 rows and 64 or 8 or 1 columns, not to"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (COLUMN, COLUMN.replace("sum", "mean"), "no frag.reduce named mean, but sum, max, min"),
        (COLUMN, COLUMN.replace(", t", ", half"),
         "half is frag<bf16, 128x64>, reductions take f32 in an accumulator's layout"),
        (COLUMN, COLUMN.replace(", t", ", wide"),
         "wide is frag<f32, 128x64, span 4>, reductions take f32 in an accumulator's layout"),
        (COLUMN, COLUMN.replace("64x1", "64x8"),
         "column is frag<f32, 64x8>, it takes over zero, frag<f32, 64x1>"),
        (COLUMN, taken("column", "128x16"), f"{FOLDS} 128x16"),
        (COLUMN, taken("column", "1x64"), f"{FOLDS} 1x64"),
        (COLUMN, taken("column", "128x64"),
         "t and start are both 128x64: nothing falls together, that is frag.update"),
        (COLUMN, "start: frag<f32, 64x1> = frag.fill 0.0 "
         "column: frag<f32, 64x1> = frag.reduce sum, start, line",
         "a tile of 1x64 is reduced to 1 rows and 64 or 8 or 1 columns, not to 64x1"),
        (STORED, STORED.replace("sum", "add"),
         "no frag.reduce_to_shared named add, but sum, max, min"),
        (STORED, STORED.replace(", t", ", line"),
         "line has one row, frag.reduce_to_shared takes whole groups of 64"),
        (STORED, STORED.replace("S[", "T["),
         ["T is f32, swizzle 128; rows go through f32 without a swizzle",
          "4 rows of 64 do not fit into T of 64x32"]),
        (ROW, ROW.replace("line", "zero").replace("1x64", "64x1").replace(COLUMN, ""),
         ["zero has 64 rows, frag.reduce_from_shared gives one", "zero is consumed twice"]),
        (ROW, ROW.replace(", 4", ", 0"), "frag.reduce_from_shared of 0 rows"),
        (ROW, ROW.replace(", 4", ", 9"), "9 rows of 64 do not fit into S of 8x64"),
        (ROW, ROW.replace("sum, line", "prod, line"),
         "no frag.reduce_from_shared named prod, but sum, max, min"),
        (ALL, ALL.replace("sum", "mean"), "no frag.reduce_rows named mean, but sum, max, min"),
        (ALL, ALL.replace("none, t", "none, line"),
         ["line has one row, frag.reduce_rows takes whole groups of 64",
          "counts is frag<pred, 128x1>; of line a column of 1 or a row of 64 of pred says what "
          "counts"]),
        (ALL, "two: frag<f32, 1x32> = frag.fill 0.0 "
         "all: frag<f32, 1x32> = frag.reduce_rows sum, two, t, below=counts",
         "a row of 64 takes all rows of t, not 1x32"),
        (COLUMN, f"{COLUMN}, below=line",
         "line is frag<f32, 1x64>; of t a column of 128 or a row of 64 of pred says what counts"),
        (STORED, f"{STORED}, below=zero",
         "zero is frag<f32, 64x1>; of t a column of 128 or a row of 64 of pred says what counts"),
        (COLUMN, COLUMN.replace("sum", "max") + ", factor=t",
         "max of products of t and t: only sums have a factor"),
        *((text, f"{text}, factor={name}",
           f"{name} is frag<{kind}>; t is multiplied by f32 in its layout, 128x64, or a column or "
           "a row of that")
          for text in (COLUMN, STORED, ALL)
          for name, kind in (("half", "bf16, 128x64"), ("zero", "f32, 64x1"),
                             ("wide", "f32, 128x64, span 4"))),
        (BELOW, BELOW.replace("pred", "f32"), "frag.below gives pred, not f32"),
        (BELOW, BELOW + ", down=-1048577",
         "down=-1048577, factors are from -1048576 to 1048576"),
        (BELOW, BELOW + ", right=1048577",
         "right=1048577, factors are from -1048576 to 1048576"),
        (BELOW, BELOW.replace("64x1", "63x1"),
         "63x1 is neither whole groups of 64 rows and 8 columns nor 1"),
        (BELOW, BELOW.replace("M - 1", "M < 1"), "limit M < 1 is pred, rows are counted in i32"),
        (STORE, STORE.replace("min", "less"),
         "no frag.store_reduced named less, but sum, max, min"),
        (STORE, STORE.replace("4, 64", "0, 64"), "frag.store_reduced of 0 rows of 64"),
        (STORE, STORE.replace("4, 64", "9, 64"), "9 rows of 64 do not fit into S of 8x64"),
        (STORE, STORE.replace("x[", "h["),
         "frag.store_reduced to h of bf16, reductions are f32"),
        (RED, RED.replace("max", "inc"), "no frag.red_global named inc, but add, max, min"),
        (RED, RED.replace("max", "add"),
         "frag.red_global adds in the order in which CTAs come: any_order=true says that it may"),
        (RED, f"{RED}, any_order=true", "max is the same in any order"),
        (RED, RED.replace("x[", "h["), "row is f32, h holds bf16"),
        (RED, ADD, []),
        (RED, ADD.replace(", any_order=true", ""),
         "frag.red_global adds in the order in which CTAs come: any_order=true says that it may"),
        (RED, "frag.red_global max, h[0, 0], half",
         "half is frag<bf16, 128x64>, reductions take f32 in an accumulator's layout"),
        (RED, ADD.replace("h[", "x["), "half is bf16, x holds f32"),
        (RED, ADD.replace("half", "wide").replace("h[", "x["),
         "wide is frag<f32, 128x64, span 4>, reductions take f32 in an accumulator's layout"),
    ],
)  # fmt: skip
def test_broken(old: str, new: str, problem: str | list[str]) -> None:
    assert KERNEL.count(old) == 1
    found = verify(parse_kernel(KERNEL.replace(old, new)))
    line = new.rpartition("frag.fill 0.0 ")[2]
    assert all(p.endswith(f", in: {line}") for p in found)
    said = [p.partition(", in: ")[0] for p in found]
    assert sorted(said) == sorted([problem] if isinstance(problem, str) else problem)
