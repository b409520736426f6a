"""Between which numbers scalars of a kernel are, at sizes that are given.

A range is a smallest and a largest number. Operations on ranges are those on numbers, at the ends,
but for what ends do not tell: quotients that are made of ``mulhi``, and choices by comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

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
from lowering.ground.poly import Poly, poly
from lowering.ground.scalar_ops import COMPARISONS, OPS
from lowering.proof.numbering import Numbering

__all__ = ["ANY", "NEVER", "Bounds", "Range", "joined"]

Range: TypeAlias = tuple[int, int]

_Way: TypeAlias = Callable[[], Range]
"""What finds a range, as names are then."""

ANY: Range = (-I32_MAX - 1, I32_MAX)
"""Of what nothing is known."""

FEWEST = -I32_MAX - 1

NEVER: Range = (1, 0)
"""Of what is nowhere."""


def joined(a: Range, b: Range) -> Range:
    """Of what is in either."""
    return min(a[0], b[0]), max(a[1], b[1])


@dataclass(frozen=True, slots=True)
class _Compared:
    """``x + less <= y``, and how far an expression ``e`` is from there, where that is a number:
    ``e = x + ahead``, ``e = y + behind``, ``e = y - x + over``.
    """

    x: Expr
    y: Expr
    less: int
    ahead: int | None
    behind: int | None
    over: int | None


@dataclass
class Bounds:
    """Ranges of expressions, from those of names.

    Args:
        names: ranges of variables, and of special registers as ``%name``.
        lets: what names stand for.
        told: what is told of a sum, difference or product that 32 bits do not hold, and its range.
        behind: what a name is, of two others: of sums with it the range is also taken so.
        numbering: what expressions stand for.
    """

    names: Mapping[str, Range]
    lets: Mapping[Var, Expr]
    told: Callable[[Binary, Range], None]
    behind: dict[Var, Expr] = field(default_factory=dict)
    made: dict[int, tuple[_Way, Expr]] = field(default_factory=dict)
    narrowed: dict[tuple[int, bool, int], tuple[_Way, Expr, Expr]] = field(default_factory=dict)
    numbering: Numbering = field(init=False)

    def __post_init__(self) -> None:
        self.numbering = Numbering(self.lets)

    def of(self, e: Expr) -> Range:
        """The range of an expression."""
        return self.found(e)()

    def found(self, e: Expr) -> _Way:
        """What finds the range of an expression, as names are then; made once of each."""
        known = self.made.get(id(e))
        if known is None:
            known = self.made[id(e)] = self.way(e), e
        return known[0]

    def way(self, e: Expr) -> _Way:
        """What :meth:`found` makes."""
        match e:
            case Var() | Special():
                name = e.name if isinstance(e, Var) else f"%{e.name}"
                names = self.names
                return lambda: names.get(name, ANY)
            case Const(value):
                only = int(value), int(value)
                return lambda: only
            case Binary():
                return self.binary(e)
            case Select(cond, a, b):
                asked = self.found(cond)
                then, other = self.given(cond, True, a), self.given(cond, False, b)

                def either() -> Range:
                    asked()
                    x, y = then(), other()
                    if x[0] > x[1]:
                        return y if y[0] <= y[1] else ANY
                    return joined(x, y) if y[0] <= y[1] else x

                return either
        return lambda: ANY

    def binary(self, e: Binary) -> _Way:
        """Of an operation."""
        left, right, compute = self.found(e.lhs), self.found(e.rhs), _operation(e.op)
        if e.op not in ("+", "-", "*"):
            return lambda: compute(left(), right())
        quotient, behind = self.divided(e), self.sum_behind(e)

        def ranged() -> Range:
            low, high = compute(left(), right())
            if quotient is not None and (by := quotient()):
                low, high = max(low, by[0]), min(high, by[1])
            if behind is not None:
                few, most = self.sum(behind)
                low, high = max(low, few), min(high, most)
            if low < FEWEST or high > I32_MAX:
                self.told(e, (low, high))
            return low, high

        return ranged

    def sum_behind(self, e: Binary) -> Poly | None:
        """An operation with what names are ``behind`` others; None if none of them is in it."""
        if self.behind.keys().isdisjoint(free_vars(e)):
            return None
        return poly(substitute(e, self.behind))

    def sum(self, p: Poly) -> Range:
        """The range of a sum, term by term."""
        found = 0, 0
        for monomial, coefficient in p.terms:
            term = coefficient, coefficient
            for atom in monomial:
                term = _binary("*", term, self.of(atom))
            found = found[0] + term[0], found[1] + term[1]
        return found

    def rounded_up(self, e: Expr) -> tuple[Expr, Expr] | None:
        """Dividend and divisor of a quotient that is rounded up: written so, or made of ``mulhi``,
        and one more where a rest is left, another one where the rest is more than the divisor.
        """
        match self.lets.get(e, e) if isinstance(e, Var) else e:
            case Binary("ceildiv", x, n):
                return x, n
            case Binary("+", Binary("+", Var() as q, any_left), more) if by := self.by(q):
                x, n = by
                rest = poly(x - q * n)
                for said, least in ((any_left, Const(0)), (more, n)):
                    match said:
                        case Select(Binary("<", a, Var() as r), Const(1), Const(0)) if a == least:
                            if poly(self.lets.get(r, r)) != rest:
                                return None
                        case _:
                            return None
                return x, n
        return None

    def where(self, cond: Expr, truth: bool, e: Expr) -> Range:
        """The range of an expression where a comparison holds, or does not; an empty one where that
        cannot be.
        """
        key = id(cond), truth, id(e)
        known = self.narrowed.get(key)
        if known is None:
            known = self.narrowed[key] = self.given(cond, truth, e), cond, e
        return known[0]()

    def given(self, cond: Expr, truth: bool, e: Expr) -> _Way:
        """What finds that range."""
        plain, known = self.found(e), self.comparison(cond, truth, e)
        if known is None:
            return plain
        x, y, less = self.found(known.x), self.found(known.y), known.less
        ahead, behind, over = known.ahead, known.behind, known.over

        def ranged() -> Range:
            low, high = plain()
            least, most = x()[0] + less, y()[1]
            if least > most:
                return NEVER
            if ahead is not None:
                high = min(high, most - less + ahead)
            if behind is not None:
                low = max(low, least + behind)
            if over is not None:
                low = max(low, less + over)
            return low, high

        return ranged

    def comparison(self, cond: Expr, truth: bool, e: Expr) -> _Compared | None:
        """What is compared, if something is, and where ``e`` is of it."""
        match self.lets.get(cond, cond) if isinstance(cond, Var) else cond:
            case Binary("<" | "<=" as op, x, y):
                less = int((op == "<") == truth)
                x, y = (x, y) if truth else (y, x)
                near = self.apart(e, x), self.apart(e, y), self.apart(e + x, y)
                return _Compared(x, y, less, *near)
        return None

    def apart(self, a: Expr, b: Expr) -> int | None:
        """How much larger one expression is than another, if that is a number."""
        return self.numbering.of(a).apart(self.numbering.of(b))

    def divided(self, e: Binary) -> Callable[[], Range | None] | None:
        """What finds the range of what is made of ``q = mulhi(x, (2**31 - 1) // d)``, which is
        ``x // d`` or one less (``passes.divide_by_reciprocal``): the rest ``x - q * d``, the
        quotient itself, and how much of ``x`` it stands for, which the ends of ``q`` and ``d`` do
        not tell: where ``d`` is large ``q`` is small. None of other operations; what it finds is
        None where numbers are negative.
        """
        match e:
            case Binary("*", Var() as q, d) if (by := self.by(q)) and by[1] == d:
                whole, divisor = self.found(by[0]), self.found(d)

                def part() -> Range | None:
                    low, high = whole()
                    return (0, high) if low >= 0 and divisor()[0] >= 0 else None

                return part
            case Binary("-", x, Binary("*", Var() as q, d)) if self.by(q) == (x, d):
                whole, divisor = self.found(x), self.found(d)
                return lambda: (0, max(min(whole()[1], 2 * divisor()[1] - 1), 0))
            case Binary("+", Var() as q, Select(Binary("<=", d, _), Const(1), Const(0))) if (
                by := self.by(q)
            ) and by[1] == d:
                whole, divisor, quotient = self.found(by[0]), self.found(d), _operation("//")
                return lambda: quotient(whole(), divisor())
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


def _operation(op: str) -> Callable[[Range, Range], Range]:
    """An operation on two ranges."""
    if op == "+":
        return lambda a, b: (a[0] + b[0], a[1] + b[1])
    if op == "-":
        return lambda a, b: (a[0] - b[1], a[1] - b[0])
    return partial(_binary, op)


def _binary(op: str, a: Range, b: Range) -> Range:
    """Of one that is no sum or difference."""
    if op in COMPARISONS or op == "parity":
        return 0, 1
    if op == "stage":
        return 0, b[1] - 1
    if op == "%":  # less than the divisor and no more than the dividend, which grow as sizes do
        if a[0] >= 0 and a[1] < b[0]:
            return a
        most = max(b[1] - 1, 0)
        return min(max(a[0], -most), 0), max(min(a[1], most), 0)
    if op == "^":
        return 0, (1 << max(a[1], b[1], 0).bit_length()) - 1
    if op in ("//", "ceildiv"):
        b = max(b[0], 1), max(b[1], 1)
        a = max(a[0], 0), max(a[1], 0)
        return OPS[op][0](a[0], b[1]), OPS[op][0](a[1], b[0])
    if op == "<<":
        a, b = (max(a[0], 0), max(a[1], 0)), (max(b[0], 0), min(max(b[1], 0), 31))
    f = OPS[op][0]
    if op in ("*", "mulhi"):
        ends = [f(x, y) for x in a for y in b]
        return min(ends), max(ends)
    return f(a[0], b[0]), f(a[1], b[1])
