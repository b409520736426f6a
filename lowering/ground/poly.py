"""Polynomial normal form of scalar expressions: what the proofs on loop indices rest on.

A polynomial is a sum of integer multiples of monomials; a monomial is a product of *atoms*:
variables, special registers and everything that is not a sum, difference or product (a quotient,
a minimum, ...), compared as trees. Two expressions with equal polynomials are equal for all values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import add, mul, sub

from lowering.ground.expr import Binary, Const, Expr, Var, as_expr, free_vars
from lowering.ground.frozen import quick

__all__ = ["Poly", "divided", "linear_in", "poly", "same", "split_multiple"]

Monomial = tuple[Expr, ...]


_text = lru_cache(maxsize=4096)(repr)


def _place(term: tuple[Monomial, int]) -> str:
    """By what terms are sorted."""
    return _text(term[0])


@quick
@dataclass(frozen=True, slots=True)
class Poly:
    """``sum(coefficient * product(monomial))`` over ``terms``, sorted, without zero terms."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(terms: Iterable[tuple[Monomial, int]]) -> Poly:
        """Collect equal monomials and drop zeros."""
        total: dict[Monomial, int] = {}
        for monomial, coefficient in terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        terms = [(m, c) for m, c in total.items() if c]
        return Poly(tuple(sorted(terms, key=_place) if len(terms) > 1 else terms))

    def __add__(self, other: Poly) -> Poly:
        return Poly.of(self.terms + other.terms)

    def __neg__(self) -> Poly:
        return Poly(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + (-other)

    def __mul__(self, other: Poly) -> Poly:
        return Poly.of(
            (tuple(sorted(m + n, key=str)) if m and n else m or n, c * d)
            for m, c in self.terms
            for n, d in other.terms
        )

    def apart(self, other: Poly) -> int | None:
        """``self - other`` where that is a number; None where it is not."""
        (mine, here), (its, there) = self._moving_and_rest(), other._moving_and_rest()
        return here - there if mine == its else None

    def _moving_and_rest(self) -> tuple[tuple[tuple[Monomial, int], ...], int]:
        """The terms that have atoms, and the number beside them, whose place is in front."""
        if self.terms and not self.terms[0][0]:
            return self.terms[1:], self.terms[0][1]
        return self.terms, 0

    def constant(self) -> int | None:
        """The value, if no atom is left."""
        if not self.terms:
            return 0
        monomial, coefficient = self.terms[0]
        return coefficient if len(self.terms) == 1 and not monomial else None

    def expr(self) -> Expr:
        """An expression with this value, terms in sorted order, subtraction last."""
        total: Expr = as_expr(0)
        for monomial, coefficient in sorted(self.terms, key=lambda t: (t[1] < 0, _place(t))):
            term: Expr = as_expr(abs(coefficient))
            for atom in reversed(monomial):
                term = atom * term
            total = total + term if coefficient > 0 else total - term
        return total


def poly(e: Expr) -> Poly:
    """Normal form of ``e``; of what is no atom it is kept with the tree when it is first found."""
    if type(e) is Binary and e.op in _COMBINED:
        found: Poly | None = e._poly
        if found is None:
            found = _COMBINED[e.op](poly(e.lhs), poly(e.rhs))
            object.__setattr__(e, "_poly", found)
        return found
    if type(e) is Const:
        return Poly((((), e.value),) if e.value else ())
    return Poly((((e,), 1),))


_COMBINED: dict[str, Callable[[Poly, Poly], Poly]] = {"+": add, "-": sub, "*": mul}
"""What of polynomials is a polynomial."""


def same(a: Expr, b: Expr) -> bool:
    """Whether ``a`` equals ``b`` for all values of their atoms."""
    return poly(a) == poly(b)


def linear_in(e: Expr, variables: Iterable[Var]) -> tuple[dict[Var, Poly], Poly] | None:
    """``e`` as ``sum(coefficient[v] * v) + rest`` with coefficients free of ``variables``.

    None if ``e`` is not linear in them (a product of two, or one inside a quotient).
    """
    wanted = frozenset(variables)
    coefficients: dict[Var, Poly] = {v: Poly(()) for v in wanted}
    rest = Poly(())
    for monomial, coefficient in poly(e).terms:
        inside = [a for a in monomial if isinstance(a, Var) and a in wanted]
        others = tuple(a for a in monomial if not (isinstance(a, Var) and a in wanted))
        if len(inside) > 1 or any(free_vars(a) & wanted for a in others):
            return None
        term = Poly.of([(others, coefficient)])
        if inside:
            coefficients[inside[0]] = coefficients[inside[0]] + term
        else:
            rest = rest + term
    return coefficients, rest


def split_multiple(e: Expr, unit: int) -> tuple[Expr, Expr]:
    """``(e // unit, e % unit)``, without a division where the coefficients of ``e`` allow it."""
    terms = poly(e).terms
    whole = Poly(tuple((m, c // unit) for m, c in terms if c % unit == 0))
    rest = Poly(tuple((m, c) for m, c in terms if c % unit)).constant()
    if rest is None:
        return e // unit, e % unit
    return whole.expr() + rest // unit, as_expr(rest % unit)


def divided(e: Expr, unit: int) -> Expr:
    """``e / unit`` of a multiple of ``unit``."""
    return split_multiple(e, unit)[0]
