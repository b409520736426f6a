"""Stream-K: both sides run an interval of the load steps of all tiles.

The outer loop counts the tiles that the interval touches, the inner one load steps of all tiles, up
to the end of the tile or of the interval. Where it begins is carried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import ZERO, Expr, Var, ceildiv, maximum, minimum
from lowering.ground.poly import same
from lowering.kernel.kernel import Storage
from lowering.kernel.nodes import Carry, Let, Section
from lowering.nest.counter import Counter
from lowering.nest.refusal import refused
from lowering.nest.scope import Shared
from lowering.nest.work_loops import Head, LoadNest
from wsched.fusion import IterDomain
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.plan import Plan
from wsched.schedule.proof.indices import indices
from wsched.schedule.proof.interval import Interval
from wsched.schedule.proof.relation import LoadRelation
from wsched.schedule.proof.sides import CTA_INDEX

__all__ = ["LoopsOfInterval"]


@dataclass(frozen=True, slots=True)
class LoopsOfInterval:
    """A loop over the tiles of an interval, one over the steps of a tile.

    Args:
        shared: names that all sections use.
        counters: what the compute side's loops count.
        operands: the relation between their loads and what consumes them.
        graph: the transform graph.
        interval: its bounds.
        places: index of the groups that a CTA's number determines.
        at: number of the tile, in the compute section.
        end: the load step behind the last of the tile.
        begin: its first load step.
        m: the load step.
    """

    shared: Shared
    counters: tuple[Counter, ...]
    operands: LoadRelation
    graph: TransformGraph
    interval: Interval
    places: Mapping[Group, Expr]
    at: Var
    end: Var
    begin: Var
    m: Var

    @staticmethod
    def of(
        shared: Shared, counters: tuple[Counter, ...], plan: Plan, interval: Interval
    ) -> LoopsOfInterval:
        """The loops of a schedule whose load steps are dealt out.

        Args:
            shared: names that all sections use.
            counters: what the compute side's loops count.
            plan: the schedule.
            interval: its work's.

        Raises:
            UnsupportedError: several loops over tiles, or over k; or CTAs along z have parts of K.
        """
        if len(counters) != 2 or not all(c.serial for c in counters):
            found = " and ".join(f"{len(c.serial)} over {c.loop.group.label}" for c in counters)
            what = f"{found} in serial loops where load steps are dealt out"
            raise UnsupportedError(what, "some over tiles and some over k slices")
        relation, graph = plan.operands, plan.graph
        counted = interval.tiles.steps, interval.inner
        if not all(same(c.loop.stop, n) for c, n in zip(counters, counted, strict=True)):
            what = f"shares of steps of {interval.label} that are rounded up across tiles and k"
            raise refused(plan.fusion.tensor(relation.loads[0]), what, "tiles rounded up, and k")
        if plan.work.splits > 1:
            what = f"parts of K on {plan.work.splits} CTAs along z where load steps are dealt out"
            raise refused(plan.fusion.tensor(relation.compute), what, "one or the other")
        loads = plan.fusion.tensor(relation.loads[0]).loop
        on_ctas = {graph.group(d): CTA_INDEX[d.parallel] for d in loads if d.parallel in CTA_INDEX}
        places = indices(graph, on_ctas)
        names = ("at", "end", "begin", relation.label)
        variables = (Var(shared.namer.new(name)) for name in names)
        return LoopsOfInterval(shared, counters, relation, graph, interval, places, *variables)

    def on_ctas(self, d: IterDomain) -> Expr:
        """The place in the cluster, a part of the loads' loop on CTAs; others have the CTA's number
        along their axis.
        """
        return self.places.get(self.graph.group(d), CTA_INDEX[d.parallel])

    def loop(self, counter: Counter, turn: Expr) -> Head:
        """The loop over tiles, or the one over the load steps of one.

        Groups that take turns skip the next tile, which is a whole one whenever they have another.
        """
        tiles, k = self.counters
        if counter is k:
            return Head(self.m, self.begin, self.end, {})
        start, first, count, inner, stop = map(self.shared.apply, self._bounds)
        var, turns = Var(self.shared.namer.new("tile")), counter.turns
        lets = (
            Let(self.at, first + var * turns + turn),
            Let(self.end, minimum(stop, (self.at + 1) * inner)),
        )
        opening, rounds = start, count
        if counter.roles:
            opening = maximum(start, (first + turn) * inner)
            rounds = ceildiv(maximum(count - turn, 0), turns)
        begin = Carry(self.begin, opening, Var(self.shared.namer.new("begin_end")))
        return Head(
            var, ZERO, rounds, {tiles.loop.group: self.at}, lets, (self.at, self.end, self.begin),
            (begin,), (self.end + inner * (turns - 1),),
        )  # fmt: skip

    @property
    def _bounds(self) -> tuple[Expr, ...]:
        i = self.interval
        return i.start, i.first, i.count, i.inner, i.load_stop

    def step(self, relation: LoadRelation, found: Mapping[Group, Expr]) -> Expr | None:
        """The load step, counted from the start of the interval."""
        if relation is not self.operands:
            raise InternalError("lower", f"{relation.compute} reads a ring in an interval")
        return self.m - self.shared.apply(self.interval.start)

    def ordinal(self, known: Mapping[Group, Expr]) -> Expr | None:
        """The number of the tile among all."""
        return self.at

    def earlier(self, known: Mapping[Group, Expr]) -> Expr | None:
        """Tiles of the interval in front of this one."""
        return self.at - self.shared.apply(self.interval.first)

    def loads(self, relation: LoadRelation) -> LoadNest:
        """The same two loops, every tile after the other."""
        start, first, count, inner, stop = map(self.shared.apply, self._bounds)
        tiles, k = (counter.loop.group for counter in self.counters)
        names = ("tile", "at", "end", "begin", "begin_end", relation.label)
        tile, at, end, begin, after, m = (Var(self.shared.namer.new(name)) for name in names)
        outer = Head(
            tile, ZERO, count, {tiles: at},
            (Let(at, first + tile), Let(end, minimum(stop, (at + 1) * inner))),
            (at, end, begin), (Carry(begin, start, after),), (end,),
        )  # fmt: skip
        return LoadNest((outer, Head(m, begin, end, {k: m - at * inner})), m - start, tile)

    @property
    def storage(self) -> tuple[Storage, ...]:
        """Nothing."""
        return ()

    def sections(self, registers: int | None) -> tuple[Section, ...]:
        """None."""
        return ()
