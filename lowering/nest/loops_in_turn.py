"""Shares that a CTA knows when it starts: loops with bounds in front of both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowering.ground.expr import ONE, ZERO, Expr, Var, ceildiv, maximum
from lowering.kernel.kernel import Storage
from lowering.kernel.nodes import Section
from lowering.nest.counter import Counter
from lowering.nest.scope import Shared
from lowering.nest.work_loops import Head, LoadNest
from wsched.fusion import IterDomain
from wsched.schedule.graph import Group
from wsched.schedule.proof.relation import LoadLoop, LoadRelation
from wsched.schedule.proof.sides import CTA_INDEX

__all__ = ["LoopsInTurn"]


@dataclass(frozen=True, slots=True)
class LoopsInTurn:
    """Loops over tiles and over the steps of a tile.

    Args:
        shared: names that all sections use.
        counters: what the compute side's loops count.
        tiles: those of the operands' load nest that choose the tile.
    """

    shared: Shared
    counters: tuple[Counter, ...]
    tiles: tuple[LoadLoop, ...]

    def on_ctas(self, d: IterDomain) -> Expr:
        """The CTA's number."""
        return CTA_INDEX[d.parallel]

    def loop(self, counter: Counter, turn: Expr) -> Head:
        """A loop up to the relation's bound; warpgroups take every ``turns``-th iteration."""
        var, turns = Var(self.shared.namer.new(counter.label)), counter.turns
        stop, index = self.shared.apply(counter.loop.stop), var * turns + turn
        if counter.roles:
            stop = ceildiv(maximum(stop - turn, 0), turns)
        return Head(var, ZERO, stop, {counter.loop.group: index})

    def step(self, relation: LoadRelation, found: Mapping[Group, Expr]) -> Expr | None:
        """The number in the load nest."""
        return self._number(relation.nest, found)

    def ordinal(self, known: Mapping[Group, Expr]) -> Expr | None:
        """How many tiles the CTA had before."""
        return self.earlier(known)

    def earlier(self, known: Mapping[Group, Expr]) -> Expr | None:
        """The number of the trip of the loops that choose the tile."""
        return self._number(self.tiles, known)

    def _number(self, loops: Sequence[LoadLoop], found: Mapping[Group, Expr]) -> Expr | None:
        number = ZERO + 0
        for loop in loops:
            if loop.group not in found and loop.stop != ONE:
                return None
            number = number * self.shared.apply(loop.stop) + found.get(loop.group, ZERO)
        return number

    def loads(self, relation: LoadRelation) -> LoadNest:
        """Those that the load loop is made of."""
        known = {loop.group: ZERO + 0 for loop in relation.nest if loop.stop == ONE}
        loops = [loop for loop in relation.nest if loop.stop != ONE]
        heads = tuple(map(self._load_loop, loops))
        index = {loop.group: head.var for loop, head in zip(loops, heads, strict=True)}
        step = self._number(loops, index)
        return LoadNest(heads, ZERO if step is None else step, self.earlier(index), known)

    def _load_loop(self, loop: LoadLoop) -> Head:
        var = Var(self.shared.namer.new(loop.group.label))
        return Head(var, ZERO, self.shared.apply(loop.stop), {loop.group: var})

    @property
    def storage(self) -> tuple[Storage, ...]:
        """Nothing."""
        return ()

    def sections(self, registers: int | None) -> tuple[Section, ...]:
        """None."""
        return ()
