from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import Frag, MmaTile
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from lowering.kernel.verify_operands import operand_rules
from lowering.kernel.visit import walk
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from passes.promote_sums import promote_sums
from tests.passes.products import machine_code_is_clean
from tests.passes.products import text as product
from tests.passes.texts import kernel

HEAD = """
param n: i32
shared A_s: e4m3[4][64x256] swizzle 128
shared B_s: e4m3[4][64x256] swizzle 128
ring ring(A_s, B_s) stages 4 in_flight 1
roles {
  role compute warps 0 .. 4 {
"""
TAIL = "  }\n}\n"

BEFORE = """
    zero: frag<f32, 64x64> = frag.fill 0.0
    for t in 0 .. n carry (before: frag<f32, 64x64> = zero -> last) {
      for k in 0 .. n carry (acc: frag<f32, 64x64> = before -> total) {
        wait_full ring, k
        acc1: frag<f32, 64x64> = mma.tile acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 128, 0 < k
        release ring, k
        yield acc1
      }
      half: frag<bf16, 64x64> = frag.cast total
      yield total
    }
"""

AFTER = """
    for t in 0 .. n {
      none: frag<f32, 64x64> = frag.fill 0.0
      part: frag<f32, 64x64> = frag.fill 0.0
      for k in 0 .. n carry (acc: frag<f32, 64x64> = none -> total,
          part2: frag<f32, 64x64> = part -> rest) {
        wait_full ring, k
        sum: frag<f32, 64x64> = mma.tile part2, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 128, false
        release ring, k
        promoted: frag<f32, 64x64> = frag.update add, acc, sum
        yield promoted, sum
      }
      half: frag<bf16, 64x64> = frag.cast total
    }
"""

LOADS = """        wait_full ring, k
        row: frag<f32, 64x1> = frag.fill 2.0
        col: frag<f32, {}> = frag.fill 3.0
"""
"""Scales, which stand in front of the product that counts times them."""


def scaled(text: str, col: str, first: str = "", made: str = "") -> str:
    """A text with scales by row and by column, in ``first`` what they are together, in ``made``
    what sums are multiplied by.
    """
    text = text.replace("        wait_full ring, k\n", LOADS.format(col) + first)
    text = text.replace("128, 0 < k", "128, 0 < k, by_row=row, by_col=col")
    return text.replace(
        "        promoted: frag<f32, 64x64> = frag.update add, acc, sum\n",
        made + f"        promoted: frag<f32, 64x64> = frag.update add, acc, {last_of(made)}\n",
    )


ONE = (
    "        scale: frag<f32, 64x1> = frag.pointwise mul, row, col\n",
    "        scaled: frag<f32, 64x64> = frag.pointwise mul, sum, scale\n",
)
EACH = (
    "",
    """        scaled: frag<f32, 64x64> = frag.pointwise mul, sum, row
        scaled2: frag<f32, 64x64> = frag.pointwise mul, scaled, col
""",
)


def last_of(made: str) -> str:
    """The name of what the last line makes."""
    return made.splitlines()[-1].strip().partition(":")[0] if made else "sum"


WIDE = BEFORE.replace("128, 0 < k", "256, 0 < k")

WIDE_AFTER = AFTER.replace(
    """128, false
        release ring, k
        promoted: frag<f32, 64x64> = frag.update add, acc, sum
        yield promoted, sum
""",
    """128, false
        promoted: frag<f32, 64x64> = frag.update add, acc, sum
        sum2: frag<f32, 64x64> = mma.tile sum, A_s[k % 4, 0, 128], B_s[k % 4, 0, 128], 128, false
        release ring, k
        promoted2: frag<f32, 64x64> = frag.update add, promoted, sum2
        yield promoted2, sum2
""",
)


def promoted(body: str, span: int = 128) -> str:
    made = promote_sums(kernel(HEAD + body + TAIL), LoweringOptions(promotion=span))
    assert verify(made) == []
    return print_kernel(made)


@pytest.mark.parametrize(("before", "after"), [(BEFORE, AFTER), (WIDE, WIDE_AFTER)])
def test_a_sum_of_each_step(before: str, after: str) -> None:
    assert promoted(before) == print_kernel(kernel(HEAD + after + TAIL))


@pytest.mark.parametrize(("col", "made"), [("1x1", ONE), ("1x64", EACH)])
def test_what_a_step_has_summed_counts_times_its_scales(col: str, made: tuple[str, str]) -> None:
    """A number for all is multiplied by those for the rows first: one product an element."""
    found, wanted = (promoted(scaled(BEFORE, col)), scaled(AFTER, col, *made))
    assert found == print_kernel(kernel(HEAD + wanted + TAIL))


ROWS = """
    none: frag<f32, 128x64> = frag.fill 0.0
    part: frag<f32, 64x64> = frag.fill 0.0
    for k in 0 .. n carry (acc: frag<f32, 128x64> = none -> total,
        part2: frag<f32, 64x64> = part -> rest) {
      wait_full ring, k
      row: frag<f32, 128x1> = frag.fill 2.0
      col: frag<f32, 1x1> = frag.fill 3.0
      scale: frag<f32, 128x1> = frag.pointwise mul, row, col
      sum: frag<f32, 64x64> = mma.tile part2, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 128, false
      scale_rows: frag<f32, 64x1> = frag.rows scale, 0
      scaled: frag<f32, 64x64> = frag.pointwise mul, sum, scale_rows
      promoted: frag<f32, 128x64> = frag.update add, acc, scaled, rows=64
      sum2: frag<f32, 64x64> = mma.tile sum, A_s[k % 4, 64, 0], B_s[k % 4, 0, 0], 128, false
      release ring, k
      scale_rows2: frag<f32, 64x1> = frag.rows scale, 64
      scaled2: frag<f32, 64x64> = frag.pointwise mul, sum2, scale_rows2
      promoted2: frag<f32, 128x64> = frag.update add, promoted, scaled2, row=64, rows=64
      yield promoted2, sum2
    }
    half: frag<bf16, 128x64> = frag.cast total
"""
"""A product of two instructions' rows, which are summed one after the other."""


M_MAJOR = """
    none: frag<f32, 128x64> = frag.fill 0.0
    part: frag<f32, 64x64> = frag.fill 0.0
    for k in 0 .. n carry (acc: frag<f32, 128x64> = none -> total,
        part2: frag<f32, 64x64> = part -> rest) {
      wait_full ring, k
      sum: frag<f32, 64x64> = mma.tile part2, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 32, false, MAJOR
      promoted: frag<f32, 128x64> = frag.update add, acc, sum, rows=64
      sum2: frag<f32, 64x64> = mma.tile sum, A_s[k % 4, 0, 64], B_s[k % 4, 0, 0], 32, false, MAJOR
      promoted2: frag<f32, 128x64> = frag.update add, promoted, sum2, row=64, rows=64
      sum3: frag<f32, 64x64> = mma.tile sum2, A_s[k % 4, 32, 0], B_s[k % 4, 32, 0], 32, false, MAJOR
      promoted3: frag<f32, 128x64> = frag.update add, promoted2, sum3, rows=64
      sum4: frag<f32, 64x64> = mma.tile sum3, A_s[k % 4, 32, 64], B_s[k % 4, 32, 0], 32, false,
          MAJOR
      release ring, k
      promoted4: frag<f32, 128x64> = frag.update add, promoted3, sum4, row=64, rows=64
      yield promoted4, sum4
    }
    half: frag<bf16, 128x64> = frag.cast total
""".replace("MAJOR", "trans_a=true, trans_b=true")


def test_operands_whose_rows_are_k() -> None:
    """K goes along the rows of both, the rows of the product along the columns of A."""
    head = """
param n: i32
shared A_s: bf16[4][64x128] swizzle 128
shared B_s: bf16[4][64x64] swizzle 128
ring ring(A_s, B_s) stages 4 in_flight 1
roles {
  role compute warps 0 .. 4 {
"""
    before = """
    zero: frag<f32, 128x64> = frag.fill 0.0
    for k in 0 .. n carry (acc: frag<f32, 128x64> = zero -> total) {
      wait_full ring, k
      acc1: frag<f32, 128x64> = mma.tile acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 64, 0 < k,
          trans_a=true, trans_b=true
      release ring, k
      yield acc1
    }
    half: frag<bf16, 128x64> = frag.cast total
"""
    made = promote_sums(kernel(head + before + TAIL), LoweringOptions(promotion=32))
    assert verify(made) == []
    assert print_kernel(made) == print_kernel(kernel(head + M_MAJOR + TAIL))


def test_rows_in_turn() -> None:
    """What wgmmas add to has the rows of one instruction."""
    head = HEAD.replace("A_s: e4m3[4][64x256]", "A_s: e4m3[4][128x256]")
    before = """
    zero: frag<f32, 128x64> = frag.fill 0.0
    for k in 0 .. n carry (acc: frag<f32, 128x64> = zero -> total) {
      wait_full ring, k
      row: frag<f32, 128x1> = frag.fill 2.0
      col: frag<f32, 1x1> = frag.fill 3.0
      acc1: frag<f32, 128x64> = mma.tile acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 128, 0 < k,
          by_row=row, by_col=col
      release ring, k
      yield acc1
    }
    half: frag<bf16, 128x64> = frag.cast total
"""
    made = promote_sums(kernel(head + before + TAIL), LoweringOptions(promotion=128))
    assert verify(made) == []
    assert print_kernel(made) == print_kernel(kernel(head + ROWS + TAIL))


def test_zero_points_are_taken_from_what_registers_hold() -> None:
    """In fp32, and rounded to its type, in front of what the product waits for."""
    left = "        left: frag<bf16, 64x128> = frag.fill 1.0\n"
    shift = "        shift: frag<f32, 64x1> = frag.fill 8.0\n"
    wait = "        wait_full ring, k\n"
    less = """        wide: frag<f32, 64x128> = frag.pointwise sub, left, shift
        less: frag<bf16, 64x128> = frag.cast wide
"""
    head = HEAD.replace("e4m3", "bf16")
    before = BEFORE.replace(wait, left + wait + shift).replace("A_s[k % 4, 0, 0]", "left")
    before = before.replace("0 < k\n", "0 < k, zeros=shift\n")
    after = AFTER.replace(wait, shift + left + less + wait)
    after = after.replace("A_s[k % 4, 0, 0]", "less")
    given = kernel(head + before + TAIL)
    made = promote_sums(given, LoweringOptions(promotion=128))
    assert print_kernel(made) == print_kernel(kernel(head + after + TAIL))
    (stmt,) = (s for s in walk(given.body) if isinstance(s, MmaTile))
    (shift,) = stmt.zeros
    narrow = Frag("narrow", FragmentType(DType.U4, 64, 1))
    assert list(operand_rules(given, replace(stmt, zeros=(narrow,)))) == [
        "narrow is frag<u4, 64x1>, zero points are f32, bf16, f16 of 64x1"
    ]
    assert list(operand_rules(given, replace(stmt, zeros=(shift,) * 3))) == [
        "0 and 0 scales, 3 zero points are for no parts of 128 of K"
    ]
    assert list(operand_rules(given, replace(stmt, a=stmt.b))) == [
        f"shift is taken from {stmt.b}, which is in shared memory"
    ]


def test_zero_points_of_several_groups() -> None:
    """A step of them is several products before sums are promoted."""
    left = "        left: frag<bf16, 64x128> = frag.fill 1.0\n"
    shifts = "".join(f"        {x}: frag<f32, 64x1> = frag.fill 8.0\n" for x in ("one", "other"))
    wait = "        wait_full ring, k\n"
    before = BEFORE.replace(wait, left + wait + shifts).replace("A_s[k % 4, 0, 0]", "left")
    before = before.replace("0 < k\n", "0 < k, zeros=one, other\n")
    given = kernel(HEAD.replace("e4m3", "bf16") + before + TAIL)
    with pytest.raises(UnsupportedError) as error:
        promote_sums(given, LoweringOptions(promotion=128))
    assert error.value.what.startswith("zero points of 2 groups of K in the step of acc1")
    assert error.value.supported == "those of one group"


def test_scaled_products_of_several_blocks() -> None:
    with pytest.raises(UnsupportedError) as error:
        promoted(scaled(BEFORE, "1x1"), 64)
    assert str(error.value) == (
        "a scaled product over 128 of K in a step, promoted every 64 is not supported; "
        "supported: one of at most 64 of K in a step"
    )


@pytest.mark.parametrize(("row", "col"), [("64x1", "64x1"), ("1x64", "1x64"), ("32x1", "1x1")])
def test_scales_of_other_shapes(row: str, col: str) -> None:
    made = kernel(HEAD + scaled(BEFORE, "1x1") + TAIL)
    (stmt,) = (s for s in walk(made.body) if isinstance(s, MmaTile))
    kinds = [FragmentType(DType.F32, *map(int, x.split("x"))) for x in (row, col)]
    wrong = replace(stmt, by_row=(Frag("row", kinds[0]),), by_col=(Frag("col", kinds[1]),))
    assert list(operand_rules(made, stmt)) == []
    (found,) = operand_rules(made, wrong)
    assert found in (
        "col is frag<f32, 64x1>, scales are f32, bf16, f16 of 1x1 or 1x64",
        "row is frag<f32, 1x64>, scales are f32, bf16, f16 of 1x1 or 64x1",
        "row is frag<f32, 32x1>, scales are f32, bf16, f16 of 1x1 or 64x1",
    )


def test_scales_of_other_parts_of_k() -> None:
    made = kernel(HEAD + scaled(BEFORE, "1x1") + TAIL)
    (stmt,) = (s for s in walk(made.body) if isinstance(s, MmaTile))
    assert list(operand_rules(made, replace(stmt, by_row=stmt.by_row * 2))) == [
        "2 and 1 scales are for no parts of 128 of K"
    ]
    assert list(operand_rules(made, replace(stmt, by_row=stmt.by_row * 3, by_col=()))) == [
        "3 and 0 scales are for no parts of 128 of K"
    ]
    assert list(operand_rules(made, replace(stmt, by_row=stmt.by_row * 2, by_col=()))) == []


def test_only_where_it_is_asked_for() -> None:
    given = kernel(HEAD + BEFORE + TAIL)
    assert promote_sums(given, LoweringOptions()) is given


def test_two_products_of_a_step_in_one_sum() -> None:
    """The second half of a slice goes on where the first has ended."""
    first = "acc1: frag<f32, 64x64> = mma.tile acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 128, 0 < k"
    assert first in BEFORE
    halves = first.replace("acc1", "acc0").replace("128, ", "64, ") + first.replace(
        "mma.tile acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 128, 0 < k",
        "mma.tile acc0, A_s[k % 4, 0, 64], B_s[k % 4, 0, 64], 64, true",
    ).replace("acc1", "\n        acc1")
    found = promoted(BEFORE.replace(first, halves))
    assert [line.rpartition(", ")[2] for line in found.splitlines() if "mma.tile" in line] == [
        "false", "true"
    ]  # fmt: skip
    assert found.count("frag.update") == 1
    with pytest.raises(UnsupportedError) as error:
        promoted(BEFORE.replace(first, halves), 64)
    assert str(error.value) == (
        "products over 128 of K in a step, promoted every 64 is not supported; "
        "supported: one product of shared memory, or 64 of K in a step"
    )


def test_what_is_made_of_a_whole_kernel() -> None:
    """Steps of 128 of K, in loops over tiles and with a ring: nothing spills."""
    source = product("typed").replace("s32", "f32").replace("s8", "e4m3").replace("u8", "e4m3")
    made = run_passes(parse_kernel(source), LoweringOptions(promotion=128, epilogue_stages=1))
    assert print_kernel(made).count("frag.update add") == 1
    assert machine_code_is_clean(made)
