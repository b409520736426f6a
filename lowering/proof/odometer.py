"""Digits that loops carry: a number whose first digit counts tiles and whose last counts steps.

A condition on the first digit says how far the number is: for digits ``x, y`` with ``0 <= y < n``,
``x < T`` is ``x * n + y < T * n``. That the digits are those of a number which each trip makes one
greater is taken for granted at the head of a trip and has to follow at its end, in all cases of its
choices; the number is then what it is in front of the loop, and the trips.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from lowering.ground.expr import (
    ONE,
    ZERO,
    Binary,
    Expr,
    Select,
    Var,
    binary,
    free_vars,
    parts_of,
)
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import For
from lowering.kernel.operands import Body
from lowering.kernel.visit import bodies, defined, walk
from lowering.proof.linear import Facts
from lowering.proof.steps import Scalar, Steps, scalars_of, trips

__all__ = ["Odometers"]

DIGITS = 3
"""Digits that a number may have."""


@dataclass(frozen=True, slots=True)
class _Digits:
    """Digits of a number, the slowest first.

    Args:
        at: the number, over the variables of loops.
        bases: of all digits but the first; each is positive wherever the digits are asked.
    """

    at: Poly
    bases: tuple[Poly, ...]

    @property
    def radix(self) -> Poly:
        """What the first digit counts for."""
        total = poly(ONE)
        for base in self.bases:
            total = total * base
        return total


@dataclass
class Odometers:
    """The numbers that the loops of one agent's program carry digits of."""

    steps: Steps
    known: dict[tuple[Expr, ...], _Digits] = field(default_factory=dict)

    @staticmethod
    def of(body: Body, steps: Steps) -> Odometers:
        """Those of a program."""
        found = Odometers(steps)
        found.note(body)
        return found

    def told(self, cond: Expr) -> Expr:
        """A condition on a first digit as one on the number; any other as it is."""
        match cond:
            case Binary("<", Var() as first, bound):
                for digits, number in self.known.items():
                    if digits[0] == first:
                        return number.at.expr() < (poly(bound) * number.radix).expr()
        return cond

    def note(self, body: Body) -> None:
        """Note the digits of a statement list."""
        for stmt in body:
            if isinstance(stmt, For):
                self.loop(stmt)
            for inner in bodies(stmt):
                self.note(inner)

    def loop(self, loop: For) -> None:
        """Note the digits that a loop carries."""
        if (loop.start, loop.step) != (ZERO, ONE):
            return
        inside = {n for s in (loop, *walk(loop.body)) for n in defined(s)}
        for carried in _neighbours(loop):
            inits = tuple(self.steps.resolve(c.init) for c in carried)
            before = self.known.get(inits)
            found = self.moved(loop, carried)
            if found is None or (before is None and any(i != ZERO for i in inits)):
                continue
            bases, each = found
            if before is not None and before.bases != bases:
                continue
            if any(v in inside for p in (each, *bases) for v in _names(p)):
                continue
            first = Poly(()) if before is None else before.at
            count = poly(trips(loop, self.steps, self.steps.facts))
            head, end = first + each * poly(loop.var), first + each * count
            self.known[tuple(c.var for c in carried)] = _Digits(head, bases)
            self.known[tuple(c.result for c in carried)] = _Digits(end, bases)

    def moved(self, loop: For, carried: tuple[Scalar, ...]) -> tuple[tuple[Poly, ...], Poly] | None:
        """The bases of the digits that a loop carries, and what a trip adds to their number."""
        yielded = tuple(c.following for c in carried)
        for inner in _directly(loop.body):
            for c in _neighbours(inner):
                same = tuple(x.init for x in c) == tuple(x.var for x in carried)
                if same and tuple(x.result for x in c) == yielded:
                    found = self.moved(inner, c)
                    if found is None:
                        return None
                    count = poly(trips(inner, self.steps, self.steps.facts))
                    return found[0], found[1] * count
        after = tuple(self.steps.resolve(e) for e in yielded)
        bases = tuple(poly(b) for e in after[1:] if (b := _base(e)) is not None)
        if len(bases) + 1 == len(carried) and self.counts(loop, carried, after, bases):
            return bases, poly(ONE)
        return None

    def counts(
        self,
        loop: For,
        carried: tuple[Scalar, ...],
        after: tuple[Expr, ...],
        bases: tuple[Poly, ...],
    ) -> bool:
        """Whether each trip of a loop makes the number one greater, its digits in their ranges."""
        one = poly(ONE)
        stop = poly(self.steps.resolve(loop.stop))
        trip = (poly(loop.var), stop - poly(loop.var) - one)
        runs = self.steps.facts + trip
        if not all(runs.follows(b - one, products=True) for b in bases):
            return False
        before = [poly(c.var) for c in carried]
        ranges = [f for x, b in zip(before[1:], bases, strict=True) for f in (x, b - x - one)]
        conds = sorted({s.cond for e in after for s in _choices(e)}, key=str)
        for truths in product((True, False), repeat=len(conds)):
            known: Facts = runs + ranges
            table = dict(zip(conds, truths, strict=True))
            for cond, truth in table.items():  # a digit is compared with what the next one carries
                known = known.assumed(_chosen(cond, table), truth)
            if known.impossible:
                continue
            now = [poly(_chosen(e, table)) for e in after]
            least = [f for x, b in zip(now[1:], bases, strict=True) for f in (x, b - x - one)]
            step = _number(now, bases) - _number(before, bases) - one
            goals = (step, -step, *least)
            if not all(known.follows(g, products=True) for g in goals):
                return False
        return True


def _neighbours(loop: For) -> Iterator[tuple[Scalar, ...]]:
    """Scalars that a loop carries beside one another, as many as a number has digits."""
    scalars = tuple(scalars_of(loop))
    for width in range(2, DIGITS + 1):
        for n in range(len(scalars) - width + 1):
            yield scalars[n : n + width]


def _directly(body: Body) -> Iterator[For]:
    """The outermost loops of a statement list."""
    for stmt in body:
        if isinstance(stmt, For):
            yield stmt
        else:
            for inner in bodies(stmt):
                yield from _directly(inner)


def _base(e: Expr) -> Expr | None:
    """At what a digit begins again, by the form of what follows it."""
    match e:
        case Select(Binary("<=", base, _), then, _) if then == ZERO:
            return base
    return None


def _choices(e: Expr) -> Iterator[Select]:
    return (x for x in parts_of(e) if isinstance(x, Select))


def _chosen(e: Expr, truths: dict[Expr, bool]) -> Expr:
    """An expression where it is known which of its conditions hold."""
    if isinstance(e, Select):
        return _chosen(e.then if truths[e.cond] else e.other, truths)
    if isinstance(e, Binary):
        return binary(e.op, _chosen(e.lhs, truths), _chosen(e.rhs, truths))
    return e


def _number(digits: list[Poly], bases: tuple[Poly, ...]) -> Poly:
    total = digits[0]
    for digit, base in zip(digits[1:], bases, strict=True):
        total = total * base + digit
    return total


def _names(p: Poly) -> set[str]:
    return {v.name for m, _ in p.terms for a in m for v in free_vars(a)}
