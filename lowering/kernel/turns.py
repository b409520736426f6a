"""2 / pi, with which both emitters take large numbers to quarter turns."""

from __future__ import annotations

from fractions import Fraction

__all__ = ["two_over_pi"]


def two_over_pi(words: int) -> tuple[int, ...]:
    """The bits of ``2 / pi`` behind the point, 32 in a word."""
    bits = 32 * words + 64
    one = 1 << bits

    def arctan_of_one_over(n: int) -> int:
        total, term, k = 0, one // n, 0
        while term:
            total += (-1) ** k * (term // (2 * k + 1))
            term, k = term // (n * n), k + 1
        return total

    pi = 4 * (4 * arctan_of_one_over(5) - arctan_of_one_over(239))
    found = int(Fraction(2 * one * one, pi)) >> 64
    return tuple(found >> 32 * i & 0xFFFFFFFF for i in reversed(range(words)))
