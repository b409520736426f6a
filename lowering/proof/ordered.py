"""Which of two numbers is never the larger one, where both are made in the same way.

Minima, maxima, quotients by one divisor and products with what is not negative keep an order. A
quotient and its remainder keep it together: of ``x <= y`` either ``x // n`` is smaller than ``y //
n``, or they are equal and ``x % n <= y % n``. So a number is counted down to that of smaller parts,
as ends of shares of steps are, of which some do not exist; what no rule takes apart has to follow
from linear inequalities.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from lowering.ground.expr import Binary, Expr, Var, parts_of
from lowering.ground.poly import Poly, poly
from lowering.proof.linear import Facts, natural, positive

__all__ = ["ordered"]

SPLITS = 4
"""Pairs of quotients of one question that are taken apart, each into its two cases."""

_ONE = Poly((((), 1),))

_Pair = tuple[Binary, Binary]


def ordered(a: Expr, b: Expr, facts: Facts) -> bool:
    """Whether ``a`` is never larger than ``b``; False where that is not found."""
    return _Order(facts).holds(a, b)


@dataclass(frozen=True, slots=True)
class _Order:
    """What is known of numbers; ``apart`` are the quotients that have been told apart."""

    facts: Facts
    apart: frozenset[_Pair] = frozenset()

    def holds(self, a: Expr, b: Expr) -> bool:
        """Whether ``a <= b``."""
        if self.facts.follows(poly(b) - poly(a), deep=False):
            return True
        match a, b:
            case _, Binary("min", x, y):
                return self.holds(a, x) and self.holds(a, y)
            case Binary("max", x, y), _:
                return self.holds(x, b) and self.holds(y, b)
            case _, Var(name) if name in self.facts.defined:
                return self.holds(a, self.facts.defined[name])
            case Var(name), _ if name in self.facts.defined:
                return self.holds(self.facts.defined[name], b)
            case Binary("//" | "ceildiv" as op, x, n), Binary(other, y, m):
                if (op, n) == (other, m) and positive(n, self.facts) and self.holds(x, y):
                    return True
        pair = next(self.quotients(a, b), None)
        return self.by_part(a, b) if pair is None else self.by_cases(a, b, *pair)

    def by_part(self, a: Expr, b: Expr) -> bool:
        """Whether that holds since it does of a part of one, or of parts of both."""
        match a, b:
            case Binary("min", x, y), _:
                return self.holds(x, b) or self.holds(y, b)
            case _, Binary("max", x, y):
                return self.holds(a, x) or self.holds(a, y)
        if not any(isinstance(e, Binary) and e.op in ("+", "-", "*") for e in (a, b)):
            return False
        return self.by_term(dict((poly(b) - poly(a)).terms))

    def by_term(self, terms: dict[tuple[Expr, ...], int]) -> bool:
        """Whether a sum is not negative: each term that is one is made up for by another that is no
        smaller, and what is left is not negative.
        """
        less = next((m for m, c in terms.items() if c < 0), None)
        if less is None:
            return all(self.natural(x) for m in terms for x in m)
        count, rest = -terms[less], {m: c for m, c in terms.items() if m != less}
        for more, c in rest.items():
            if c >= count and self.no_more(less, more):
                left = rest | {more: c - count}
                if self.by_term({m: c for m, c in left.items() if c}):
                    return True
        return False

    def no_more(self, less: tuple[Expr, ...], more: tuple[Expr, ...]) -> bool:
        """Whether one product is no larger than another, which differs from it in one factor."""
        mine, its = list(less), list(more)
        for x in less:
            if x in its:
                mine.remove(x)
                its.remove(x)
        if len(mine) != 1 or len(its) != 1:
            return False
        common = list(less)
        common.remove(mine[0])
        return all(map(self.natural, common)) and self.holds(mine[0], its[0])

    def quotients(self, a: Expr, b: Expr) -> Iterator[_Pair]:
        """Quotients in ``a`` and in ``b`` by the same divisor, of what is in order."""
        pairs = product(self.divided(a), self.divided(b)) if len(self.apart) < SPLITS else ()
        for p, q in pairs:
            other = p.rhs != q.rhs or p == q or (p, q) in self.apart
            if not other and self.holds(p.lhs, q.lhs):
                yield p, q

    def divided(self, e: Expr) -> list[Binary]:
        """The quotients of natural numbers in an expression."""
        found = (p for p in dict.fromkeys(parts_of(e)) if isinstance(p, Binary) and p.op == "//")
        return [p for p in found if self.natural(p.lhs) and positive(p.rhs, self.facts)]

    def natural(self, e: Expr) -> bool:
        """Whether a number is not negative, by its form or what is known of its parts."""
        match e:
            case Binary("+" | "*" | "min", x, y):
                return self.natural(x) and self.natural(y)
            case Binary("%", _, n) if positive(n, self.facts):
                return True
        return natural(e, self.facts) or self.facts.follows(poly(e))

    def by_cases(self, a: Expr, b: Expr, p: Binary, q: Binary) -> bool:
        """Whether that holds where one quotient is smaller than another one, and where not."""
        more = poly(q) - poly(p)
        rest = poly(q.lhs % q.rhs) - poly(p.lhs % p.rhs)
        cases = (more - _ONE,), (more, -more, rest)
        apart = self.apart | {(p, q)}
        return all(_Order(self.facts + case, apart).holds(a, b) for case in cases)
