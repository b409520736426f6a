"""Operands of 4 bits that are made a power of two smaller, and sums that are multiplied for it."""

from __future__ import annotations

import pytest

from passes.scale_unpacked import scale_unpacked
from tests.passes.texts import full, lowered, unchanged

HEAD = """
param n: i32
tensormap D: f32[64, 16]
global z: bf16[1, 64] align 2
shared Q_s: u4[1][64x64]
shared B_s: bf16[1][16x64]
"""
BEFORE = """
zero: frag<f32, 64x16> = frag.fill 0.0
for tile in 0 .. n carry (before: frag<f32, 64x16> = zero -> last) {
  for k in 0 .. n carry (acc: frag<f32, 64x16> = before -> total) {
    q: frag<u4, 64x64> = ld.shared Q_s[0, 0, 0]
    left: frag<bf16, 64x64> = frag.cast q
    acc1: frag<f32, 64x16> = mma.tile acc, left, B_s[0, 0, 0], 64, 0 < k
    yield acc1
  }
  store.tile D[0, 0], total
  yield total
}
"""
AFTER = """
zero: frag<f32, 64x16> = frag.fill 0.0
for tile in 0 .. n carry (before: frag<f32, 64x16> = zero -> last) {
  for k in 0 .. n carry (acc: frag<f32, 64x16> = before -> total) {
    q: frag<u4, 64x64> = ld.shared Q_s[0, 0, 0]
    left: frag<bf16, 64x64> = frag.cast q, exponent=-6
    acc1: frag<f32, 64x16> = mma.tile acc, left, B_s[0, 0, 0], 64, 0 < k
    yield acc1
  }
  whole: frag<f32, 64x16> = frag.update mul, total, 64.0
  store.tile D[0, 0], whole
  yield whole
}
"""
LEFT = "    left: frag<bf16, 64x64> = frag.cast q"
SHORT = "    short: frag<bf16, 64x64> = frag.cast q"
ZEROS = "frag<f32, 64x16> = frag.fill 0.0"
OTHER = "    other: frag<f32, 64x64> = frag"
ZERO = "v: frag<bf16, 64x1> = frag.load_global z[0, 0], trans=true\nzero: frag"


def shifted(arg: str, exponent: str = "") -> str:
    """What is taken from the integers, instead of them."""
    return f"{SHORT}{exponent}\n    left: frag<bf16, 64x64> = frag.pointwise sub, short, {arg}"


def made(text: str) -> str:
    return lowered(scale_unpacked, HEAD + text, 128)


def test_sums_are_multiplied_behind_the_loop() -> None:
    """In their registers, which the next tile has."""
    assert made(BEFORE) == full(HEAD + AFTER, 128)


def test_numbers_are_smaller_themselves() -> None:
    text, wanted = (
        BEFORE.replace(LEFT, shifted("8.0")),
        AFTER.replace(f"{LEFT}, exponent=-6", shifted("0.125", ", exponent=-6")),
    )
    assert made(text) == full(HEAD + wanted, 128)


def test_zero_points_are_made_smaller() -> None:
    text = BEFORE.replace(LEFT, shifted("v")).replace("zero: frag", ZERO)
    small = (
        "    wide: frag<f32, 64x1> = frag.pointwise mul, v, 0.015625\n"
        "    small: frag<bf16, 64x1> = frag.cast wide\n"
    )
    after = small + shifted("small", ", exponent=-6")
    wanted = AFTER.replace(f"{LEFT}, exponent=-6", after).replace("zero: frag", ZERO)
    assert made(text) == full(HEAD + wanted, 128)


def test_a_second_accumulator() -> None:
    """It alone is read behind the loop; what wgmmas add to begins with zero in each trip."""
    text = BEFORE.replace("before -> total) {", "none -> total,\n"
                          "      part: frag<f32, 64x16> = first -> rest) {")  # fmt: skip
    text = text.replace("carry (before: frag<f32, 64x16> = zero -> last) ", "")
    text = text.replace("  yield total\n", "").replace("mma.tile acc, ", "mma.tile part, ")
    text = text.replace("64, 0 < k\n    yield acc1", "64, false\n"
                        "    sum: frag<f32, 64x16> = frag.update add, acc, acc1\n"
                        "    yield sum, acc1")  # fmt: skip
    for name in ("none", "first"):
        text = text.replace("  for k", f"  {name}: {ZEROS}\n  for k")
    found = made(text)
    assert "left: frag<bf16, 64x64> = frag.cast q, exponent=-6" in found
    assert found.count("frag.update mul, total, 64.0") == 1 and "update mul, rest" not in found
    assert unchanged(
        scale_unpacked, HEAD + text.replace(f"none: {ZEROS}", f"none: {ZEROS[:-3]}1.0")
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("64, 0 < k", "64, true"),
        ("u4", "e4m3"),
        (LEFT, f"{LEFT}\n{OTHER}.pointwise neg, left"),
        (
            LEFT,
            shifted("v").replace("left:", "other: frag<f32, 64x64> = frag.cast short\n    left:"),
        ),
        (LEFT, LEFT.replace("cast q", "fill 1.0")),
    ],
    ids=["sums that go on", "another type", "read by others", "integers are", "of nothing"],
)
def test_what_is_something_else(old: str, new: str) -> None:
    text = HEAD + BEFORE.replace("zero: frag", ZERO)
    assert old in text and unchanged(scale_unpacked, text.replace(old, new))


@pytest.mark.parametrize("dtype", ["s8", "u8"])
def test_bytes_too(dtype: str) -> None:
    text = (HEAD + BEFORE.replace("zero: frag", ZERO)).replace("u4", dtype)
    wanted = (HEAD + AFTER.replace("zero: frag", ZERO)).replace("u4", dtype)
    assert lowered(scale_unpacked, text) == full(wanted)


COUNTED = f"""
zero: {ZEROS}
none: {ZEROS}
ones: {ZEROS[:-3]}1.0
for k in 0 .. n carry (acc: {ZEROS[:16]} = zero -> total, seen: {ZEROS[:16]} = none -> all) {{
  q: frag<u4, 64x64> = ld.shared Q_s[0, 0, 0]
  left: frag<bf16, 64x64> = frag.cast q
  acc1: frag<f32, 64x16> = mma.tile acc, left, B_s[0, 0, 0], 64, 0 < k
  twice: frag<f32, 64x16> = frag.pointwise mul, ones, 2.0
  more: frag<f32, 64x16> = frag.update add, seen, ones
  yield acc1, more
}}
both: frag<f32, 64x16> = frag.pointwise mul, total, all
store.tile D[0, 0], both
"""
"""Something beside the sums that a loop carries, which has nothing to do with them."""


def test_what_is_no_sum_of_products_is_not_multiplied() -> None:
    """It is carried beside them, and read behind the loop like them."""
    wanted = (
        COUNTED.replace("cast q", "cast q, exponent=-6")
        .replace("both:", "whole: frag<f32, 64x16> = frag.update mul, total, 64.0\nboth:")
        .replace("mul, total, all", "mul, whole, all")
    )
    assert made(COUNTED) == full(HEAD + wanted, 128)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("update add, seen, ones", "update maximum, seen, acc1"),
        ("pointwise mul, ones, 2.0", "pointwise add, acc1, 1.0"),
        ("pointwise mul, ones, 2.0", "pointwise mul, acc1, acc1"),
        ("pointwise mul, ones, 2.0", "pointwise exp, acc1"),
        ("pointwise mul, ones, 2.0", "pointwise add, acc1, ones"),
    ],
    ids=["the largest", "and a number", "their square", "a function", "and something else"],
)  # fmt: skip
def test_what_is_made_of_sums(old: str, new: str) -> None:
    """A loop is left alone in which products come to something that no factor makes up for."""
    assert old in COUNTED and not unchanged(scale_unpacked, HEAD + COUNTED)
    assert unchanged(scale_unpacked, HEAD + COUNTED.replace(old, new))


def test_sums_that_begin_otherwise() -> None:
    """What a loop adds to ones would be multiplied with them."""
    text = COUNTED.replace("add, seen, ones", "add, seen, acc1")
    assert made(text).count("64.0") == 2
    assert unchanged(scale_unpacked, HEAD + text.replace("none -> all", "ones -> all"))


def test_sums_times_numbers_are_sums() -> None:
    """As scales of groups are taken in, of products that begin with zero in each trip."""
    text = COUNTED.replace("64, 0 < k", "64, false").replace("mul, ones, 2.0", "mul, acc1, 2.0")
    text = text.replace("add, seen, ones", "add, seen, twice")
    for name in ("total", "all"):
        assert f"frag.update mul, {name}, 64.0" in made(text)
    assert "cast q, exponent=-6" in made(text)
