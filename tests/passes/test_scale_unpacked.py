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
        ("u4", "u8"),
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
