"""The numbers that a kernel divides by, compares with and cuts at, whatever stands for them.

A comparison, a minimum or a maximum is told by what is on one side less what is on the other: a
number in that is one that something is compared with, wherever it stands. ``20 - max(20 - x, 0)``
is ``min(x, 20)``, and so it is with a name that stands for 20.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import gcd

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    Select,
    Special,
    Var,
    binary,
    children,
    parts_of,
    select,
)
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import Let
from lowering.kernel.kernel import Kernel
from lowering.kernel.visit import expressions, walk

__all__ = ["COMPARISONS", "EQUALITIES", "Beside", "Scalars"]

EQUALITIES = ("==", "!=")
COMPARISONS = ("<", "<=", *EQUALITIES, "min", "max")
_DIVISIONS = ("ceildiv", "//", "%")

Beside = tuple[str, Expr, int]
"""An operation, what it is of, and the number on the other side."""


@dataclass(frozen=True, slots=True)
class Scalars:
    """What a kernel computes with, numbers in place of the names that stand for them.

    Args:
        lets: what other names stand for.
        parts: all expressions, and those in them, once each.
    """

    lets: dict[Var, Expr]
    parts: tuple[Expr, ...]

    @staticmethod
    def of(kernel: Kernel) -> Scalars:
        """Those of a kernel."""
        fold, lets = _Fold(), dict[Var, Expr]()
        whole = [kernel.grid, kernel.grid_y]
        for stmt in walk(kernel.body):
            whole += map(fold, expressions(stmt))
            if isinstance(stmt, Let):
                lets[stmt.var] = value = fold(stmt.value)
                if isinstance(value, Const):
                    fold.numbers[stmt.var] = value
        return Scalars(lets, tuple(dict.fromkeys(part for e in whole for part in parts_of(e))))

    def beside(self) -> Iterator[Beside]:
        """What is divided by a number of two or more, compared with one, or cut at it."""
        for part in self.parts:
            match part:
                case Binary("^", x, Const(n)) | Binary("^", Const(n), x) if n > 1:
                    yield "==", x, n
                case Binary(op, x, Const(n)) if op in _DIVISIONS and n > 1:
                    yield op, x, n
                case Binary(op, a, b) if op in COMPARISONS:
                    yield from self._compared(op, a, b)

    def _compared(self, op: str, a: Expr, b: Expr) -> Iterator[Beside]:
        """What is compared with which number, if any: one that every kernel is followed around
        anyway is none, but where it is written there.
        """
        apart = self._spelled(poly(a) - poly(b))
        number = abs(next((c for m, c in apart.terms if not m), 0))
        terms = tuple((m, c) for m, c in apart.terms if m)
        if not terms:
            return
        by = gcd(*(c for _, c in terms)) * (-1 if terms[0][1] < 0 else 1)
        found = -(-number // abs(by))
        if found > (1 if Const in (type(a), type(b)) else 2):
            yield op, Poly(tuple((m, c // by) for m, c in terms)).expr(), found

    def _spelled(self, of: Poly) -> Poly:
        """The same with what names stand for that are multiples of a number."""
        found = Poly(())
        for factors, coefficient in of.terms:
            term = Poly((((), coefficient),))
            for e in factors:
                value = poly(self.lets.get(e, e) if isinstance(e, Var) else e)
                term = term * (value if gcd(*(c for _, c in value.terms)) > 1 else poly(e))
            found = found + term
        return found


@dataclass(slots=True)
class _Fold:
    """Expressions with numbers for the names that are known to stand for such."""

    numbers: dict[Var, Const] = field(default_factory=dict)
    found: dict[Expr, Expr] = field(default_factory=dict)

    def __call__(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return self.numbers.get(e, e)
        if isinstance(e, Const | Special):
            return e
        known = self.found.get(e)
        if known is None:
            known = self.found[e] = self.folded(e)
        return known

    def folded(self, e: Expr) -> Expr:
        """An operation on what its operands are."""
        parts = [self(c) for c in children(e)]
        match e:
            case Binary(op):
                return _divided(*parts) if op == "mulhi" else binary(op, *parts)
            case Select():
                return select(*parts)
        return e


def _divided(x: Expr, reciprocal: Expr) -> Expr:
    """What ``mulhi`` is: a quotient, or one less, if it is by the reciprocal of a number."""
    match reciprocal:
        case Const(n) if 1 < n < 2**30:
            return binary("//", x, Const(-(-(2**31) // (n + 1))))
    return binary("mulhi", x, reciprocal)
