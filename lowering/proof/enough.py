"""Trips of who reads words that loops in each other store: there are enough for all of them.

Who deals tiles out group by group (``lowering.proof.dealt``) stores a word for each of its own, and
ends behind all of them. Who reads them has a loop of a number of trips, and leaves it at an end;
were the trips fewer than words, nobody would read the last ones. A team, which has a part of the
words alone, has as many trips, which is more than it needs.

*Words.* Each stands for a tile. The numbers of a CTA's tiles are not negative, one or more apart,
and less than all tiles together; so words are no more than these, the sum of ``here`` over groups.

*Tiles.* Of a group of ``size`` elements ``here`` is no more than ``(of size + rest) / by``, by its
form, where ``of`` and ``rest`` are of parameters. Ends of groups do not fall and lie within an
extent: each is ``min(max(read, begin), extent)``, where ``begin`` is the one before, the first one
0. So all sizes together are no more than the extent, and all tiles no more than ``(of extent + rest
groups) / by``. Where a kernel has a part of a group, that counts as the whole, which it is no more
than.

*Twice.* Where small groups are delayed the loop goes over all groups two times, by trips from
``-groups`` on. Both times it reads the same ends, which nobody writes, and begins with the first
group at 0, so a group is as large the second time; and its tiles count in one of both, by whether
it is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from lowering.ground.expr import (
    ONE,
    ZERO,
    Binary,
    Const,
    Expr,
    Select,
    Var,
    free_vars,
    parts_of,
    select,
    substitute,
)
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import Break, For, Let
from lowering.kernel.group_part import GroupPart
from lowering.kernel.operands import Body, GmemRef
from lowering.kernel.queue import LdWord, StWord
from lowering.kernel.scalar_memory import LdGlobalScalar
from lowering.kernel.visit import bodies, walk
from lowering.proof.agent import Agent
from lowering.proof.bounds import Bounds
from lowering.proof.dealt import Dealt, dealt
from lowering.proof.linear import Facts, natural, positive
from lowering.proof.obligation import Obligation, UnknownError, Verdict
from lowering.proof.steps import Scalar, scalars_of

__all__ = ["enough"]

NAME = "trips for words"


def enough(warps: tuple[Agent, ...], facts: Facts) -> Iterator[Obligation]:
    """One claim for each buffer of words that loops in each other store, and that end a loop."""
    nests = [(agent, *nest) for agent in warps for nest in _nests(agent.body)]
    walked = (getattr(s, "dst", None) for agent in warps for s in walk(agent.body))
    written = frozenset(ref.map for ref in walked if isinstance(ref, GmemRef))
    stored = {s.dst.buffer for _, _, inner in nests for s in _words(inner)}
    stops: dict[str, set[Expr]] = {}
    for agent in warps:
        for buffer, stop in _reading(agent, stored, facts):
            stops.setdefault(buffer, set()).add(stop)
    for buffer, found in sorted(stops.items()):
        storing = [n for n in nests if any(s.dst.buffer == buffer for s in _words(n[2]))]
        try:
            claims = (_Words(a, facts, written, *nest).few(found) for a, *nest in storing)
            why = next(chain.from_iterable(claims), "")
        except UnknownError as e:
            why = str(e)
        yield Obligation(NAME, buffer, Verdict.UNPROVED if why else Verdict.PROVED, why)


def _nests(body: Body) -> Iterator[tuple[For, For]]:
    """Loops in whose trips other ones store words, with these."""
    for stmt in body:
        if isinstance(stmt, For) and not stmt.unroll:
            inner = [s for s in walk(stmt.body) if isinstance(s, For) and not s.unroll]
            yield from ((stmt, s) for s in inner if _words(s))
        else:
            for within in bodies(stmt):
                yield from _nests(within)


def _words(loop: For) -> list[StWord]:
    return [s for s in walk(loop.body) if isinstance(s, StWord)]


def _reading(agent: Agent, buffers: set[str], facts: Facts) -> Iterator[tuple[str, Expr]]:
    """The buffers whose words end a loop of an agent, and how many trips that has at most: none
    where that is not known.
    """
    lets = _lets(agent, facts)
    for loop in (s for s in walk(agent.body) if isinstance(s, For)):
        read = {s.out: s.src.buffer for s in loop.body if isinstance(s, LdWord)}
        ends = {v for s in loop.body if isinstance(s, Break) for v in free_vars(s.cond)}
        plain = loop.start == ZERO and loop.step == ONE
        for buffer in {read[v] for v in ends & read.keys()} & buffers:
            yield buffer, _whole(loop.stop, lets) if plain else ZERO


def _lets(agent: Agent, facts: Facts) -> dict[Var, Expr]:
    """What names of an agent's program stand for."""
    lets: dict[Var, Expr] = {Var(name): e for name, e in facts.defined.items()}
    return lets | {s.var: s.value for s in walk(agent.body) if isinstance(s, Let)}


def _whole(e: Expr, lets: Mapping[Var, Expr]) -> Expr:
    """An expression without names that stand for others."""
    while free_vars(e) & lets.keys():
        e = substitute(e, lets)
    return e


def _rounded(e: Expr) -> list[Poly]:
    """That quotients in an expression which are rounded up are no smaller than without that."""
    quotients = [p for p in parts_of(e) if isinstance(p, Binary) and p.op == "ceildiv"]
    return [poly(q) * poly(q.rhs) - poly(q.lhs) for q in quotients]


@dataclass(frozen=True, slots=True)
class _Most:
    """``(of * size + rest) / by``, which a number is no more than."""

    of: Poly
    rest: Poly
    by: int = 1

    def __add__(self, more: _Most) -> _Most:
        of, rest = (a * poly(Const(more.by)) + b * poly(Const(self.by))
                    for a, b in ((self.of, more.of), (self.rest, more.rest)))  # fmt: skip
        return _Most(of, rest, self.by * more.by)

    def times(self, factor: Poly) -> _Most:
        return _Most(self.of * factor, self.rest * factor, self.by)

    def part(self, n: int, up: bool) -> _Most:
        """A quotient; ``up`` if it is rounded up."""
        more = poly(Const(self.by * (n - 1))) if up else poly(ZERO)
        return _Most(self.of, self.rest + more, self.by * n)


@dataclass(frozen=True, slots=True)
class _Words:
    """The words that ``inner``, a loop in ``outer``, stores; ``written`` are the tensors in memory
    that some thread writes.
    """

    agent: Agent
    facts: Facts
    written: frozenset[str]
    outer: For
    inner: For

    def few(self, stops: set[Expr]) -> Iterator[str]:
        """Loops that have no trip for each word, and one for an end.

        Raises:
            UnknownError: how many words there are is not known.
        """
        lets = _lets(self.agent, self.facts)
        carried = list(scalars_of(self.outer))
        found = dealt(carried, Bounds({}, lets, lambda e, r: None), self.inside())
        turns = [d for d in found if d.turns == self.inner.stop]
        groups, start = (_whole(e, lets) for e in (self.outer.stop, self.outer.start))
        twice = start != ZERO and poly(start) + poly(groups) == poly(ZERO)
        plain = (twice or start == ZERO) and self.inner.start == ZERO
        if len(turns) != 1 or not plain or (self.outer.step, self.inner.step) != (ONE, ONE):
            raise UnknownError("words are stored that are of no tiles which are dealt out")
        if not self.ahead(turns[0], carried, lets) or not self.plain(groups):
            raise UnknownError("the tiles that are dealt out do not begin with the first one")
        size, extent = self.sizes(carried, lets, groups if twice else None)
        wholes = {s.size: s.whole for s in self.parts}
        count = _whole(turns[0].more, {**lets, **wholes})
        most = self.most(self.once(count, size) if twice else count, size)
        words = most.of * poly(extent) + most.rest * poly(groups)
        for stop in sorted(stops, key=str):
            spare = (poly(stop) - poly(ONE)) * poly(Const(most.by)) - words
            rounded = self.facts + _rounded(stop)
            if not rounded.follows(spare, products=True):
                yield f"{stop} trips may not be enough for words of all groups, and an end"

    def inside(self) -> frozenset[str]:
        """Names that have values of their own in each trip, but for those that stand for others."""
        loops = [s for s in walk((self.outer,)) if isinstance(s, For)]
        names = {s.var.name for s in loops}
        names |= {c.var.name for s in loops for c in scalars_of(s)}
        names |= {v.name for s in self.parts for v in (s.begin, s.size)}
        return frozenset(names | {s.out.name for s in walk(self.outer.body)
                                  if isinstance(s, LdWord | LdGlobalScalar)})  # fmt: skip

    @property
    def parts(self) -> list[GroupPart]:
        """What the kernel has of groups that several share."""
        return [s for s in walk(self.outer.body) if isinstance(s, GroupPart)]

    def ahead(self, d: Dealt, carried: list[Scalar], lets: Mapping[Var, Expr]) -> bool:
        """Whether tiles are counted from none on, the first of a CTA is none in front of these, and
        the next one another one.
        """
        before = next(c.init for c in carried if c.var == d.before)
        first, by = (_whole(e, lets) for e in (d.lead, d.by))
        return before == ZERO and natural(first, self.facts) and positive(by, self.facts)

    def sizes(
        self, carried: list[Scalar], lets: Mapping[Var, Expr], twice: Expr | None
    ) -> tuple[Poly | None, Expr]:
        """What the size of a group is, None where it has none, and up to where all of them go;
        ``twice`` is how many groups there are where they are gone over two times.
        """
        trip = self.outer.var
        group = trip if twice is None else trip + select(trip < 0, twice, 0)
        for c in carried:
            begin: Expr = c.var if twice is None else select(group < 1, 0, c.var)
            match _whole(c.following, lets):
                case Binary("min", Binary("max", a, b), extent) as end if begin in (a, b):
                    read = b if a == begin else a
                    alike = twice is None or self.reads(read, group, lets)
                    if c.init == ZERO and self.plain(extent) and alike:
                        return poly(end) - poly(begin), extent
        return None, ZERO

    def reads(self, value: Expr, group: Expr, lets: Mapping[Var, Expr]) -> bool:
        """Whether a number is that of a group in a table in memory, which nobody writes."""
        return any(
            s.out == value and [_whole(x, lets) for x in s.src.coords] == [group]
            for s in self.outer.body
            if isinstance(s, LdGlobalScalar) and s.src.map not in self.written
        )

    def once(self, count: Expr, size: Poly | None) -> Expr:
        """What counts of a group in one of two times; ``count`` says it of each.

        Raises:
            UnknownError: it may count in both.
        """
        first = self.outer.var < 0
        match count:
            case Select(
                Binary("<", x, Const()), Select(now, Const(0), then), Select(other, still, Const(0))
            ) if now == other == first and then == still and size is not None and poly(x) == size:
                return then
        raise UnknownError(f"whether {count} counts in one of two trips alone is not known")

    def plain(self, e: Expr) -> bool:
        """Whether a number is of parameters alone, and not negative."""
        own = {v.name for v in free_vars(e)}
        return own <= self.facts.natural and natural(e, self.facts)

    def most(self, e: Expr, size: Poly | None) -> _Most:
        """What a number of a group is no more than.

        Args:
            e: the number; its form says that it is not negative.
            size: of the group.

        Raises:
            UnknownError: it has another form.
        """
        if self.plain(e):
            return _Most(poly(ZERO), poly(e))
        if size is not None and poly(e) == size:
            return _Most(poly(ONE), poly(ZERO))
        match e:
            case Binary("ceildiv" | "//" as op, x, Const(int() as n)) if n > 0:
                return self.most(x, size).part(n, op == "ceildiv")
            case Binary("*", x, y) if self.plain(y):
                return self.most(x, size).times(poly(y))
            case Binary("*", x, y) if self.plain(x):
                return self.most(y, size).times(poly(x))
            case Binary("+" | "max", x, y) | Select(_, x, y):
                return self.most(x, size) + self.most(y, size)
        raise UnknownError(f"how large {e} is in all groups is not known")
