"""Between which numbers scalars of a kernel are, at sizes that are given.

A range is a smallest and a largest number. Operations on ranges are those on numbers, at the ends,
but for what ends do not tell: quotients that are made of ``mulhi``, and choices by comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lowering.ground.expr import (
    I32_MAX,
    Binary,
    Const,
    Expr,
    Select,
    Special,
    Var,
    free_vars,
    substitute,
)
from lowering.ground.poly import poly
from lowering.ground.scalar_ops import COMPARISONS, OPS

__all__ = ["ANY", "NEVER", "Bounds", "Range", "joined"]

Range = tuple[int, int]

ANY: Range = (-I32_MAX - 1, I32_MAX)
"""Of what nothing is known."""

NEVER: Range = (1, 0)
"""Of what is nowhere."""


def joined(a: Range, b: Range) -> Range:
    """Of what is in either."""
    return min(a[0], b[0]), max(a[1], b[1])


@dataclass
class Bounds:
    """Ranges of expressions, from those of names.

    Args:
        names: ranges of variables, and of special registers as ``%name``.
        lets: what names stand for.
        told: what is told of each sum, difference and product, and its range.
        distances: what :meth:`apart` has found for the same names.
    """

    names: Mapping[str, Range]
    lets: Mapping[Var, Expr]
    told: Callable[[Binary, Range], None]
    distances: dict[tuple[Expr, Expr], int | None] = field(default_factory=dict)

    def of(self, e: Expr) -> Range:
        """The range of an expression."""
        match e:
            case Const(value):
                return int(value), int(value)
            case Var(name):
                return self.names.get(name, ANY)
            case Special(name):
                return self.names.get(f"%{name}", ANY)
            case Select(cond, a, b):
                self.of(cond)
                both = self.where(cond, True, a), self.where(cond, False, b)
                taken = [r for r in both if r[0] <= r[1]]
                return joined(taken[0], taken[-1]) if taken else ANY
            case Binary(op, a, b):
                left, right = self.of(a), self.of(b)
                found = _binary(op, left, right)
                if by := self.divided(e):
                    found = max(found[0], by[0]), min(found[1], by[1])
                if op in ("+", "-", "*"):
                    self.told(e, found)
                return found
        return ANY

    def where(self, cond: Expr, truth: bool, e: Expr) -> Range:
        """The range of an expression where a comparison holds, or does not; an empty one where that
        cannot be.
        """
        low, high = self.of(e)
        match self.lets.get(cond, cond) if isinstance(cond, Var) else cond:
            case Binary("<" | "<=" as op, x, y):
                less = int((op == "<") == truth)
                x, y = (x, y) if truth else (y, x)  # x + less <= y
                if self.of(x)[0] + less > self.of(y)[1]:
                    return NEVER
            case _:
                return low, high
        if (ahead := self.apart(e, x)) is not None:  # e = x + ahead
            high = min(high, self.of(y)[1] - less + ahead)
        if (behind := self.apart(e, y)) is not None:  # e = y + behind
            low = max(low, self.of(x)[0] + less + behind)
        if (over := self.apart(e + x, y)) is not None:  # e = y - x + over
            low = max(low, less + over)
        return low, high

    def apart(self, a: Expr, b: Expr) -> int | None:
        """How much larger one expression is than another, if that is a number."""
        if (a, b) not in self.distances:
            self.distances[a, b] = poly(self.resolved(a)).apart(poly(self.resolved(b)))
        return self.distances[a, b]

    def resolved(self, e: Expr) -> Expr:
        """``e`` without names of lets."""
        while free_vars(e) & self.lets.keys():
            e = substitute(e, self.lets)
        return e

    def divided(self, e: Expr) -> Range | None:
        """Of what is made of ``q = mulhi(x, (2**31 - 1) // d)``, which is ``x // d`` or one less
        (``passes.divide_by_reciprocal``): the rest ``x - q * d``, the quotient itself, and how much
        of ``x`` it stands for, which the ends of ``q`` and ``d`` do not tell: where ``d`` is large
        ``q`` is small.
        """
        match e:
            case Binary("*", Var() as q, d) if (by := self.by(q)) and by[1] == d:
                low, high = self.of(by[0])
                return (0, high) if low >= 0 and self.of(d)[0] >= 0 else None
            case Binary("-", x, Binary("*", Var() as q, d)) if self.by(q) == (x, d):
                (_, high), (_, most) = self.of(x), self.of(d)
                return 0, max(min(high, 2 * most - 1), 0)
            case Binary("+", Var() as q, Select(Binary("<=", d, _), Const(1), Const(0))):
                by = self.by(q)
                return _binary("//", self.of(by[0]), self.of(d)) if by and by[1] == d else None
        return None

    def by(self, q: Var) -> tuple[Expr, Expr] | None:
        """Dividend and divisor of a quotient that is right or one too small."""
        match self.lets.get(q):
            case Binary("mulhi", x, Var() as r):
                match self.lets.get(r):
                    case Binary("//", Const(value), Binary("max", d, Const(1))) | Binary(
                        "//", Const(value), d
                    ) if value == I32_MAX:
                        return x, d
        return None


def _binary(op: str, a: Range, b: Range) -> Range:
    """Of an operation on two ranges."""
    if op in COMPARISONS or op == "parity":
        return 0, 1
    if op == "stage":
        return 0, b[1] - 1
    if op == "%":
        if 0 < b[0] == b[1] and a[0] >= 0 and a[0] // b[0] == a[1] // b[0]:
            return a[0] % b[0], a[1] % b[0]
        return a if a[0] >= 0 and a[1] < b[0] else (0, max(min(a[1], b[1] - 1), 0))
    if op == "^":
        return 0, (1 << max(a[1], b[1], 0).bit_length()) - 1
    if op == "-":
        return a[0] - b[1], a[1] - b[0]
    if op in ("//", "ceildiv"):
        b = max(b[0], 1), max(b[1], 1)
        a = max(a[0], 0), max(a[1], 0)
        return OPS[op][0](a[0], b[1]), OPS[op][0](a[1], b[0])
    if op == "<<":
        a, b = (max(a[0], 0), max(a[1], 0)), (max(b[0], 0), min(max(b[1], 0), 31))
    if op == "*":
        ends = [x * y for x in a for y in b]
        return min(ends), max(ends)
    f = OPS[op][0]
    return f(a[0], b[0]), f(a[1], b[1])
