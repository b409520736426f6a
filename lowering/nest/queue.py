"""Tiles that are dealt out at run time: every section reads from the queue which one is next.

What the legality relation says of load steps stands: step ``m`` is step ``m % steps`` of the CTA's
tile number ``m // steps``. Only which tile that is, and that there is none any more, comes from the
queue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.ground.dtypes import DType
from lowering.ground.expr import Expr, Var
from lowering.kernel.kernel import Ring, SharedBuffer
from lowering.kernel.nodes import Body, Break, FetchTiles, NextTile, Section
from lowering.nest.counter import Counter
from lowering.nest.scope import Shared
from lowering.nest.work import Head, InTurn
from wsched.fusion import Split
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.relation import LoadLoop, LoadRelation

__all__ = ["FromQueue"]

STAGES = 2
"""Entries of a queue: one for the tile that is loaded while another is computed, and one that is on
its way. More would claim tiles earlier than they are needed."""


@dataclass(frozen=True)
class FromQueue(InTurn):
    """Tiles from a queue; the loops over a CTA's tiles end when it says so.

    Args:
        queue: the ring of its entries.
        word: the ring's buffer.
        group: loops whose index an entry is.
        tiles: how many tiles there are.
    """

    queue: Ring
    word: SharedBuffer
    group: Group
    tiles: Expr

    @staticmethod
    def of(
        relation: LoadRelation, counters: tuple[Counter, ...], graph: TransformGraph, shared: Shared
    ) -> FromQueue:
        """The queue of a schedule whose tiles are dealt out at run time."""
        group = next(
            s.inputs[0] for s in graph.steps
            if isinstance(s.transform, Split) and s.transform.dynamic
        )  # fmt: skip
        name, teams = shared.namer.new("queue"), relation.roles // relation.consumers
        word = SharedBuffer(shared.namer.new(f"{name}_tile"), DType.S32, 1, (1,))
        queue = Ring(name, (word.name,), STAGES, teams, remote=True)
        tiles = shared.apply(group.extent)
        return FromQueue(relation, counters, graph, shared, queue, word, group, tiles)

    def loop(self, counter: Counter, turn: Expr) -> Head:
        """A loop in turn, or the one that asks the queue."""
        head = super().loop(counter, turn)
        first = counter.loop == self.operands.nest[0]
        return self._dealt(head, head.known[counter.loop.group]) if first else head

    def _load_loop(self, relation: LoadRelation, loop: LoadLoop) -> Head:
        head = super()._load_loop(relation, loop)
        return self._dealt(head, head.var) if loop == relation.nest[0] else head

    def _dealt(self, head: Head, number: Expr) -> Head:
        """A loop over a CTA's tiles, which ends before its bound: one for each, one for the end."""
        tile = Var(self.shared.namer.new("dealt"))
        entry: Body = (NextTile(tile, self.queue.name, number), Break(self.tiles <= tile))
        known = {**head.known, self.group: tile}
        return replace(head, stop=self.tiles + 1, known=known, entry=entry, defined=(tile,))

    def fetch_section(self, registers: int | None) -> Section:
        """What takes tiles, a load section of its own."""
        return Section("load", (FetchTiles(self.queue.name, self.tiles),), registers=registers)
