"""Tiles from a queue whose numbers of load steps differ: sums over groups.

The loop over tiles asks the queue, as for all tiles that are dealt out at run time; the one over
load steps ends where the entry says. How many steps there were in front of a tile is carried from
tile to tile, by both sides alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ZERO, Expr, Var
from lowering.kernel.kernel import Storage
from lowering.kernel.nodes import Carry, Let, Section
from lowering.nest.counter import Counter
from lowering.nest.loops_from_queue import LoopsFromQueue
from lowering.nest.scope import Shared
from lowering.nest.work_loops import STEPS, Head, LoadNest
from wsched.fusion import IterDomain
from wsched.schedule.graph import Group
from wsched.schedule.proof.relation import LoadLoop, LoadRelation

__all__ = ["LoopsOfSums"]


@dataclass(frozen=True, slots=True)
class LoopsOfSums:
    """A loop over a CTA's tiles, and one over the steps of a tile.

    Args:
        queue: the loops if all tiles had as many steps.
        operands: the relation between the loads of what is summed and what consumes them.
        before: load steps in front of a tile, in the compute section.
        steps: how many it has.
    """

    queue: LoopsFromQueue
    operands: LoadRelation
    before: Var
    steps: Var

    @staticmethod
    def of(queue: LoopsFromQueue, operands: LoadRelation) -> LoopsOfSums:
        """The loops where groups share out what products sum over.

        Raises:
            UnsupportedError: warpgroups that take turns, or several serial loops over steps.
        """
        tiles, steps = queue.counters
        if tiles.roles or len(steps.serial) != 1:
            what = "sums over groups" + " by warpgroups that take turns" * bool(tiles.roles)
            raise UnsupportedError(what, "warpgroups that share tiles, and one loop over k slices")
        new = queue.shared.namer.new
        return LoopsOfSums(queue, operands, Var(new("before")), Var(new("steps")))

    @property
    def shared(self) -> Shared:
        """Names that all sections use."""
        return self.queue.shared

    @property
    def counters(self) -> tuple[Counter, ...]:
        """What the compute side's loops count."""
        return self.queue.counters

    def on_ctas(self, d: IterDomain) -> Expr:
        """The CTA's number."""
        return self.queue.on_ctas(d)

    def loop(self, counter: Counter, turn: Expr) -> Head:
        """The loop that asks the queue, or the one over the steps that its entry says."""
        head = self.queue.loop(counter, turn)
        if self.queue.asks(counter):
            return self._carrying(head, self.before, self.steps)
        return replace(head, stop=self.steps)

    def _carrying(self, head: Head, before: Var, steps: Var) -> Head:
        """The loop over tiles, with the number of steps in front of each."""
        carry = Carry(before, ZERO, Var(self.shared.namer.new("before_end")))
        return replace(
            head,
            entry=(*head.entry, Let(steps, head.known[STEPS])),
            defined=(*head.defined, before, steps),
            carries=(*head.carries, carry),
            yields=(*head.yields, before + steps),
        )

    def step(self, relation: LoadRelation, found: Mapping[Group, Expr]) -> Expr | None:
        """The step, behind those of the tiles before; of what is loaded once a tile its number."""
        if relation is not self.operands:
            return self.queue.step(relation, found)
        k = self._steps_of(relation).group
        return self.before + found[k] if k in found else None

    def ordinal(self, known: Mapping[Group, Expr]) -> Expr | None:
        """How many tiles the CTA had before."""
        return self.queue.ordinal(known)

    def earlier(self, known: Mapping[Group, Expr]) -> Expr | None:
        """Entries of the queue that the CTA had before."""
        return self.queue.earlier(known)

    def loads(self, relation: LoadRelation) -> LoadNest:
        """The same two loops; of what is loaded once a tile the one over tiles."""
        nest = self.queue.loads(relation)
        if relation is not self.operands:
            return nest
        new, k = self.shared.namer.new, self._steps_of(relation).group
        before, steps, at = Var(new("before")), Var(new("steps")), Var(new(k.label))
        outer = self._carrying(nest.heads[0], before, steps)
        return LoadNest((outer, Head(at, ZERO, steps, {k: at})), before + at, nest.tile, nest.known)

    @staticmethod
    def _steps_of(relation: LoadRelation) -> LoadLoop:
        _, steps = relation.nest
        return steps

    @property
    def storage(self) -> tuple[Storage, ...]:
        """The queue, and what fills it reads."""
        return self.queue.storage

    def sections(self, registers: int | None) -> tuple[Section, ...]:
        """What fills the queue."""
        return self.queue.sections(registers)
