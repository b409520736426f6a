"""Sine and cosine: the bits of 2 / pi, the reduction of large numbers, and no local memory."""

from __future__ import annotations

from fractions import Fraction
from math import cos, pi, sin

import numpy as np
import pytest

from lowering.cuda.trigonometry import FUNCTIONS
from lowering.kernel.turns import two_over_pi

WORDS = (0, *two_over_pi(7))


def test_the_words_are_those_of_two_over_pi() -> None:
    """1 / words has pi's digits, of which 50 are known here."""
    whole = sum(word << 32 * (7 - i) for i, word in enumerate(two_over_pi(8)))
    digits = int(Fraction(2 * 2**256, whole) * 10**50)
    assert str(digits) == "314159265358979323846264338327950288419716939937510"


def turns(x: float) -> tuple[int, float]:
    """What the C++ does with a number from 2**16 on, in Python's integers."""
    bits = int(np.float32(x).view(np.uint32))
    m, start = bits & 0x7FFFFF | 0x800000, (bits >> 23 & 0xFF) - 150 + 30
    a, b, c, d = WORDS[start >> 5 : (start >> 5) + 4]
    high, middle, low = (
        (left << 32 | right) << (start & 31) >> 32 & 0xFFFFFFFF
        for left, right in ((a, b), (b, c), (c, d))
    )
    p2 = m * low
    p1 = m * middle + (p2 >> 32)
    p0 = m * high + (p1 >> 32) & 0xFFFFFFFF
    part = (p0 << 34 | (p1 & 0xFFFFFFFF) << 2 | (p2 & 0xFFFFFFFF) >> 30) & 2**64 - 1
    left = part - 2**64 if part >> 63 else part
    return (p0 >> 30) + (part >> 63), left * 2**-64 * pi / 2


@pytest.mark.parametrize("exponent", range(16, 128))
def test_the_reduction_of_large_numbers(exponent: int) -> None:
    rng = np.random.default_rng(exponent)
    for x in map(float, (rng.uniform(1, 2, 8) * 2.0**exponent).astype(np.float32)):
        quarter, left = turns(x)
        series = (sin(left), cos(left), -sin(left), -cos(left))
        assert series[quarter % 4] == pytest.approx(float(np.sin(np.float64(x))), rel=1e-12)


def test_the_text_has_these_words_and_both_operations() -> None:
    assert FUNCTIONS.keys() == {"sin", "cos"}
    (text,) = {text for _, text in FUNCTIONS.values()}
    assert all(f"{word:#x}u" in text for word in WORDS[1:])
