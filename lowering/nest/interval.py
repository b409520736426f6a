"""Stream-K: both sides run an interval of the load steps of all tiles.

The outer loop counts the tiles that the interval touches, the inner one load steps of all tiles, up
to the end of the tile or of the interval. Where it begins is carried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import ZERO, Expr, Var, ceildiv, maximum, minimum
from lowering.kernel.nodes import Carry, Let
from lowering.nest.scope import CTA_INDEX, Shared
from lowering.nest.work import Head, InTurn, LoadNest
from wsched.fusion import IterDomain, IterType
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.interval import Interval
from wsched.schedule.proof.relation import LoadRelation, StepLoop

__all__ = ["OfInterval"]


@dataclass(frozen=True)
class OfInterval(InTurn):
    """An interval of the load steps of all tiles.

    Args:
        interval: its bounds.
        places: index of the groups that a CTA's number determines.
        at: number of the tile, in the compute section.
        end: the load step behind the last of the tile.
        begin: its first load step.
        m: the load step.
    """

    interval: Interval
    places: Mapping[Group, Expr]
    at: Var
    end: Var
    begin: Var
    m: Var

    @staticmethod
    def of(
        relation: LoadRelation,
        graph: TransformGraph,
        shared: Shared,
        on_ctas: tuple[IterDomain, ...],
    ) -> OfInterval:
        """The work of a schedule whose load steps are dealt out.

        Args:
            relation: of the operands.
            graph: the transform graph.
            shared: names that all sections use.
            on_ctas: the loops of a load that run on CTAs.

        Raises:
            UnsupportedError: several loops over tiles, or over k.
        """
        serial = [s.domain for s in relation.steps if not s.role]
        over_k = [d for d in serial if d.iter_type is IterType.Reduction]
        if relation.interval is None or len(serial) != 2 or len(over_k) != 1:
            found = f"{len(serial) - len(over_k)} serial loops over tiles and {len(over_k)} over K"
            supported = "one over tiles and one over K slices"
            raise UnsupportedError(f"{found} where load steps are dealt out", supported)
        places = graph.indices({graph.group(d): CTA_INDEX[d.parallel] for d in on_ctas})
        names = ("at", "end", "begin", relation.loop.label)
        variables = (Var(shared.namer.new(name)) for name in names)
        return OfInterval(relation, graph, shared, relation.interval, places, *variables)

    def on_ctas(self, d: IterDomain) -> Expr:
        """The place in the cluster, a part of the loads' loop on CTAs."""
        return self.places[self.graph.group(d)]

    def on_warpgroups(self, d: IterDomain, index: Expr) -> dict[Group, Expr]:
        """A loop in whose turns tiles are taken says nothing: the first tile is any."""
        role = self.operands.role
        at = self.graph.group(d)
        return {} if role is not None and self.graph.group(role.domain) == at else {at: index}

    def loop(self, step: StepLoop, vars: Mapping[Var, Expr]) -> Head:
        """The loop over tiles, or the one over the load steps of one.

        Groups that take turns skip the next tile, which is a whole one whenever they have another.
        """
        if step.domain.iter_type is IterType.Reduction:
            return Head(self.m, self.begin, self.end, {})
        role, apply = self.operands.role, self.shared.apply
        turns = 1 if role is None else self.operands.roles
        turn: Expr = ZERO if role is None else vars[role.var]
        start, first, count, inner, stop = map(apply, self._bounds)
        var = Var(self.shared.namer.new("tile"))
        lets = (
            Let(self.at, first + var * turns + turn),
            Let(self.end, minimum(stop, (self.at + 1) * inner)),
        )
        opening = start if turns == 1 else maximum(start, (first + turn) * inner)
        rounds = count if turns == 1 else ceildiv(maximum(count - turn, 0), turns)
        begin = Carry(self.begin, opening, Var(self.shared.namer.new("begin_end")))
        return Head(
            var, ZERO, rounds, {self.interval.tile: self.at}, lets, (self.at, self.end, self.begin),
            (begin,), (self.end + inner * (turns - 1),),
        )  # fmt: skip

    @property
    def _bounds(self) -> tuple[Expr, ...]:
        i = self.interval
        return i.start, i.first, i.count, i.inner, i.load_stop

    def step(self, relation: LoadRelation, found: Mapping[str, Expr | None]) -> Expr:
        """The load step, counted from the start of the interval."""
        if relation is not self.operands:
            raise InternalError("lower", f"{relation.compute} reads a ring in an interval")
        return self.m - self.shared.apply(self.interval.start)

    def ordinal(self, vars: Mapping[Var, Expr]) -> Expr:
        """The number of the tile among all."""
        return self.at

    def loads(self, relation: LoadRelation) -> LoadNest:
        """The same two loops, every tile after the other."""
        start, first, count, inner, stop = map(self.shared.apply, self._bounds)
        names = ("tile", "at", "end", "begin", "begin_end", relation.loop.label)
        tile, at, end, begin, after, m = (Var(self.shared.namer.new(name)) for name in names)
        outer = Head(
            tile, ZERO, count, {self.interval.tile: at},
            (Let(at, first + tile), Let(end, minimum(stop, (at + 1) * inner))),
            (at, end, begin), (Carry(begin, start, after),), (end,),
        )  # fmt: skip
        return LoadNest((outer, Head(m, begin, end, {self.interval.k: m - at * inner})), m - start)
