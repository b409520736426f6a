from __future__ import annotations

import pytest

from lowering.kernel.text import print_kernel
from lowering.kernel.verify import verify
from passes.load_scales_ahead import load_scales_ahead
from passes.options import LoweringOptions
from tests.passes.texts import kernel

HEAD = """
param n: i32
param m: i32
global x: f32[n, 64]
global y: f32[1, n]
shared A_s: e4m3[4][64x128] swizzle 128
shared B_s: e4m3[4][64x128] swizzle 128
ring ring(A_s, B_s) stages 4 in_flight 1
roles {
  role compute warps 0 .. 4 {
    none: frag<f32, 64x64> = frag.fill 0.0
    part: frag<f32, 64x64> = frag.fill 0.0
"""
TAIL = """
    half: frag<bf16, 64x64> = frag.cast total
  }
}
"""

BEFORE = """
    for k in m .. n carry (acc: frag<f32, 64x64> = none -> total,
        part2: frag<f32, 64x64> = part -> rest) {
      row: frag<f32, 64x1> = frag.load_global x[k, 0], trans=true
      one: frag<f32, 1x1> = frag.load_global y[0, k]
      wait_full ring, k
      scale: frag<f32, 64x1> = frag.pointwise mul, row, one
      sum: frag<f32, 64x64> = mma.tile part2, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 128, false
      release ring, k
      scaled: frag<f32, 64x64> = frag.pointwise mul, sum, scale
      acc1: frag<f32, 64x64> = frag.update add, acc, scaled
      yield acc1, sum
    }
"""

AFTER = """
    row_first: frag<f32, 64x1> = frag.load_global x[m, 0], trans=true
    one_first: frag<f32, 1x1> = frag.load_global y[0, m]
    for k in m .. n carry (acc: frag<f32, 64x64> = none -> total,
        part2: frag<f32, 64x64> = part -> rest, row: frag<f32, 64x1> = row_first -> row_rest,
        one: frag<f32, 1x1> = one_first -> one_rest) {
      wait_full ring, k
      scale: frag<f32, 64x1> = frag.pointwise mul, row, one
      row_next: frag<f32, 64x1> = frag.load_global x[k + 1, 0], trans=true
      one_next: frag<f32, 1x1> = frag.load_global y[0, k + 1]
      sum: frag<f32, 64x64> = mma.tile part2, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 128, false
      release ring, k
      scaled: frag<f32, 64x64> = frag.pointwise mul, sum, scale
      acc1: frag<f32, 64x64> = frag.update add, acc, scaled
      yield acc1, sum, row_next, one_next
    }
"""

LIMITS = {"y[0, k]": "n - k", "y[0, m]": "n - m", "y[0, k + 1]": "n - (k + 1)"}
"""Of what is loaded in a trip, by that."""

PRODUCT = "      scale: frag<f32, 64x1> = frag.pointwise mul, row, one\n"
LATE = """      scale: frag<f32, 64x64> = frag.pointwise mul, sum, row
      scaled: frag<f32, 64x64> = frag.pointwise mul, scale, one
"""
ONE = "      one_next: frag<f32, 1x1> = frag.load_global y[0, k + 1]\n"
ROW = "      row_next: frag<f32, 64x1> = frag.load_global x[k + 1, 0], trans=true\n"
SCALED = "      scaled: frag<f32, 64x64> = frag.pointwise mul, sum, scale\n"


def ahead(body: str) -> str:
    given = kernel(HEAD + body + TAIL)
    assert verify(given) == []
    made = load_scales_ahead(given, LoweringOptions(promotion=128))
    assert verify(made) == []
    return print_kernel(made)


def test_a_step_ahead() -> None:
    assert ahead(BEFORE) == print_kernel(kernel(HEAD + AFTER + TAIL))


def test_a_limit_is_that_of_the_trip() -> None:
    """Of the first one in front, of the next one ahead."""
    before, after = BEFORE, AFTER
    for load, limit in LIMITS.items():
        before, after = (x.replace(load, f"{load}, limit={limit}") for x in (before, after))
    assert ahead(before) == print_kernel(kernel(HEAD + after + TAIL))


def test_behind_what_reads_them_last() -> None:
    """So they take no registers of their own."""
    before = BEFORE.replace(PRODUCT, "").replace(SCALED, LATE)
    mul, one = LATE.splitlines(keepends=True)
    after = AFTER.replace(PRODUCT + ROW + ONE, "").replace(SCALED, mul + ROW + one + ONE)
    assert ahead(before) == print_kernel(kernel(HEAD + after + TAIL))


def test_behind_what_reads_parts_of_them() -> None:
    """They are in the same registers."""
    rows = "      rows: frag<f32, 64x1> = frag.rows row, 0\n"
    before = BEFORE.replace(PRODUCT, rows).replace("sum, scale", "sum, rows")
    lines = ahead(before).splitlines()
    (scaled,) = (n for n, line in enumerate(lines) if "mul, sum, rows" in line)
    assert "row_next" in lines[scaled + 1]


def test_rows_along_which_trips_go_are_fetched() -> None:
    """Numbers of the trips behind lie beside those of this one, in as many lines as rows."""
    before, after = (
        x.replace("[k, 0], trans=true", f"[0, k]{more}")
        .replace("[m, 0], trans=true", "[0, m], fetched=256")
        .replace("[k + 1, 0], trans=true", "[0, k + 1], fetched=256")
        for x, more in ((BEFORE, ""), (AFTER, ", fetched=256"))
    )  # fmt: skip
    wide = HEAD.replace("x: f32[n, 64]", "x: f32[64, n]")
    given = kernel(wide + before + TAIL)
    made = load_scales_ahead(given, LoweringOptions(promotion=128))
    assert print_kernel(made) == print_kernel(kernel(wide + after + TAIL))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x[k, 0]", "x[m, 0]"),
        ("in m .. n carry", "in m .. n step 2 carry"),
        ("x[k, 0], trans", "x[j, 0], trans"),
    ],
    ids=["the same in each step", "every other step", "what only the step knows"],
)
def test_what_stays(old: str, new: str) -> None:
    """What is no number of the step, one further in each."""
    text = BEFORE.replace("      row:", "      let j: i32 = k * 2\n      row:")
    text = text.replace(old, new)
    found = ahead(text)
    assert "row_next" not in found
    assert ("one_next" in found) is ("step 2" not in text)


def test_only_of_promoted_sums() -> None:
    given = kernel(HEAD + BEFORE + TAIL)
    assert load_scales_ahead(given, LoweringOptions()) is given
