"""Teams whose trips take different numbers of steps: the spans of tiles of a stream-K interval.

Who takes all steps goes, in trip j of X, from a ``begin`` that it carries to an ``end``, one step
each, and yields that end: so the step that a trip begins with is its begin, less the first one. A
team's trip i is trip ``j = T * i + t`` of those. It carries its own begin, which has to be the
same, and its place in the ring, ahead of its begin by as much as in the other program: it begins as
many steps late as its first begin is behind, and skips from its end to its next begin.

All that is proved for trips that there are, ``j < X``, and by cases of the conditions that sizes
decide: where no trip takes a step, there is nothing else to prove.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lowering.ground.expr import (
    ONE,
    ZERO,
    Binary,
    Const,
    Expr,
    Select,
    Var,
    as_expr,
    binary,
    ceildiv,
    free_vars,
    maximum,
    parts_of,
    select,
    substitute,
)
from lowering.ground.poly import Poly, poly
from lowering.proof.linear import Facts, natural
from lowering.proof.ordered import ordered
from lowering.proof.shape import Shape
from lowering.proof.steps import congruent

__all__ = ["Gaps", "uneven"]

_TRIP, _BEGIN = Var("%0"), Var("%0.0")
_ONE = poly(ONE)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Steps that a team leaves to others: in front of its loop, and behind each of its trips; what
    the walk did not note is a multiple of ``modulus``.
    """

    begins: Poly
    skips: Poly
    modulus: int


@dataclass(frozen=True, slots=True)
class _Spans:
    """A loop of ``trips`` that goes in each from a begin to an ``end``, one step each.

    ``init`` is the first begin, ``following`` the one behind a trip; both, and the end, are told
    from the number of the trip.
    """

    trips: Expr
    init: Expr
    following: Expr
    end: Expr

    @staticmethod
    def of(shape: Shape) -> _Spans | None:
        """That of a program as waits see it; None of other forms."""
        match shape:
            case (("loop", Const(0), Expr() as trips, Const(1), ((init, after),), (inner,)),):
                match inner:
                    case ("loop", begin, Expr() as end, Const(1), (), ("wait",)):
                        if begin != _BEGIN or not isinstance(init, Expr):
                            return None
                        if isinstance(after, Expr) and not _carried(after, end):
                            return _Spans(trips, init, after, end)
        return None

    @property
    def parts(self) -> tuple[Expr, ...]:
        """What it is told by."""
        return self.trips, self.init, self.following, self.end

    def put(self, case: _Case) -> _Spans:
        """In a case."""
        return _Spans(*map(case.plain, self.parts))

    def span(self, trip: Expr, first: bool) -> tuple[Poly, Poly]:
        """Begin and end of a trip, which is the first one or is not."""
        before = substitute(self.following, {_TRIP: trip - 1})
        return poly(self.init if first else before), poly(substitute(self.end, {_TRIP: trip}))


@dataclass(frozen=True, slots=True)
class _Case:
    """Whether a size that the kernel defines is more than zero, and what follows from that.

    Args:
        extent: the size.
        truth: whether it is.
        facts: with what is known then, and what names stand for then.
    """

    extent: Expr
    truth: bool
    facts: Facts

    @staticmethod
    def where(extent: Expr, truth: bool, facts: Facts) -> _Case:
        """A case."""
        case = _Case(extent, truth, facts)
        defined = {n: case.of(e) for n, e in facts.defined.items()}
        positive, more = facts.positive | {extent}, (poly(extent) - _ONE,)
        if truth:
            return replace(
                case, facts=replace(facts, defined=defined, positive=positive, memo={}) + more
            )
        return replace(case, facts=replace(facts, defined=defined, memo={}))

    def of(self, e: Expr) -> Expr:
        """An expression in this case."""
        if e == self.extent and not self.truth:
            return ZERO
        match e:
            case Select(Binary("<", zero, extent), a, b) if (zero, extent) == (ZERO, self.extent):
                return self.of(a if self.truth else b)
            case Binary("max", extent, one) if self.truth and (extent, one) == (self.extent, ONE):
                return extent
            case Binary(op, a, b):
                return binary(op, self.of(a), self.of(b))
            case Select(c, a, b):
                return select(self.of(c), self.of(a), self.of(b))
        return e

    def plain(self, e: Expr) -> Expr:
        """The same, with such names as :meth:`short` knows replaced."""
        e = self.of(e)
        while names := {v: d for v in free_vars(e) if (d := self.short(v)) is not None}:
            e = substitute(e, names)
        return e

    def short(self, name: Var) -> Expr | None:
        """What a name stands for, if it is a name, a number, a sum, a difference or a quotient."""
        match self.facts.defined.get(name.name):
            case (Var() | Const() | Binary("+" | "-" | "//")) as found:
                return found
        return None


def uneven(shape: Shape, mine: Shape, team: int, count: int, gaps: Gaps, facts: Facts) -> bool:
    """Whether a program takes every ``count``-th trip of another one, from ``team`` on, each with
    the same steps, and leaves out those between them.
    """
    whole, part = _Spans.of(shape), _Spans.of(mine)
    if whole is None or part is None:
        return False
    if poly(part.trips) != poly(ceildiv(maximum(whole.trips - team, 0), count)):
        return False
    facts = replace(facts, natural=facts.natural | {_TRIP.name}, memo={})
    named = [facts.defined.get(v.name, v) for e in whole.parts for v in free_vars(e)]
    extents = sorted({x for e in named for x in _extents(e) if natural(x, facts)}, key=str)
    if len(extents) != 1:
        return False
    for case in (_Case.where(extents[0], truth, facts) for truth in (True, False)):
        a, b = whole.put(case), part.put(case)
        if _empty(a, case.facts):
            if not _empty(b, case.facts):
                return False
            continue
        begins, skips = (poly(case.plain(p.expr())) for p in (gaps.begins, gaps.skips))
        if not _same(a, b, team, count, Gaps(begins, skips, gaps.modulus), case.facts):
            return False
    return True


def _carried(*es: Expr) -> bool:
    """Whether expressions depend on the begin that a loop carries."""
    return any(_BEGIN in free_vars(e) for e in es)


def _extents(e: Expr) -> Iterator[Expr]:
    """What is asked to be more than zero by choices in an expression."""
    for part in parts_of(e):
        match part:
            case Select(Binary("<", zero, extent), _, _) if zero == ZERO:
                yield extent


def _empty(spans: _Spans, facts: Facts) -> bool:
    """Whether no trip takes a step."""
    first = spans.span(as_expr(0), True)
    later = spans.span(_TRIP, False)
    return facts.follows(first[0] - first[1]) and facts.follows(later[0] - later[1])


def _same(whole: _Spans, part: _Spans, team: int, count: int, gaps: Gaps, facts: Facts) -> bool:
    """Whether the trips of a team are those of the whole, and begin in the ring where those do."""
    late = poly(part.init) - poly(whole.init) - gaps.begins
    skipped = poly(part.following) - poly(part.end) - gaps.skips
    if poly(whole.following) != poly(whole.end):
        return False
    if not all(congruent(d, Poly(()), gaps.modulus) for d in (late, skipped)):
        return False
    for first in (True, False):
        trip = as_expr(team) if first else _TRIP * count + team
        here = poly(whole.trips) - poly(trip) - _ONE
        runs = (here,) if first else (here, poly(_TRIP) - _ONE)
        known = facts + runs
        begin, end = whole.span(trip, first and not team)
        mine = part.span(as_expr(0) if first else _TRIP, first)
        same = begin - mine[0], mine[0] - begin, end - mine[1], mine[1] - end
        if not all(known.follows(g, products=True) for g in same):
            return False
        rises = known.follows(end - begin, products=True)
        if not rises and not ordered(begin.expr(), end.expr(), known):
            return False
    return True
