"""The operations of scalar expressions."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["COMPARISONS", "DIVISIONS", "NEUTRAL", "NEUTRAL_RIGHT", "OPS"]

# op -> (meaning on Python integers, binding strength of the infix form; 0 prints as a call)
OPS: dict[str, tuple[Callable[[int, int], int], int]] = {
    "or": (lambda a, b: int(bool(a or b)), 1),
    "and": (lambda a, b: int(bool(a and b)), 2),
    "==": (lambda a, b: int(a == b), 3),
    "!=": (lambda a, b: int(a != b), 3),
    "<": (lambda a, b: int(a < b), 3),
    "<=": (lambda a, b: int(a <= b), 3),
    "^": (lambda a, b: a ^ b, 4),
    "<<": (lambda a, b: a << b, 5),
    "+": (lambda a, b: a + b, 6),
    "-": (lambda a, b: a - b, 6),
    "*": (lambda a, b: a * b, 7),
    "//": (lambda a, b: a // b, 7),
    "%": (lambda a, b: a % b, 7),
    "ceildiv": (lambda a, b: -(-a // b), 0),
    "min": (min, 0),
    "max": (max, 0),
    # Of step m of a ring with so many stages: which stage it has, and the parity of that stage's
    # phase. Not spelled with % and //, so that nobody has to guess what a division is about.
    "stage": (lambda m, stages: m % stages, 0),
    "parity": (lambda m, stages: m // stages % 2, 0),
    # PTX's mul.hi for non-negative numbers of 31 bits: the product without its low 31 bits.
    "mulhi": (lambda a, b: a * b >> 31, 0),
}
DIVISIONS = frozenset({"//", "%", "ceildiv", "stage", "parity"})
"""Operations that divide."""

COMPARISONS = frozenset({"==", "!=", "<", "<=", "and", "or"})
"""Operations whose result is a predicate."""

NEUTRAL = frozenset({("+", 0), ("^", 0), ("*", 1)})
NEUTRAL_RIGHT = frozenset({*NEUTRAL, ("-", 0), ("<<", 0), ("//", 1), ("ceildiv", 1)})
"""Operations with a number on one side, or on the right, that leaves the other as it is."""
