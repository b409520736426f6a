"""Tiles that are dealt out at run time: every section reads from the queue which one is next.

What the legality relation says of load steps stands: step ``m`` is step ``m % steps`` of the CTA's
tile number ``m // steps``. Only which tile that is, and that there is none any more, comes from the
queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lowering.ground.dtypes import DType
from lowering.ground.expr import Expr, Var
from lowering.kernel.kernel import Ring, SharedBuffer, Storage
from lowering.kernel.nodes import Body, Break, FetchTiles, NextTile, Section
from lowering.nest.counter import Counter
from lowering.nest.loops_in_turn import LoopsInTurn
from lowering.nest.scope import Shared
from lowering.nest.work_loops import Head, LoadNest
from wsched.fusion import IterDomain
from wsched.schedule.proof.graph import Group
from wsched.schedule.proof.relation import LoadLoop, LoadRelation

__all__ = ["LoopsFromQueue"]

STAGES = 2
"""Entries of a queue: one for the tile that is loaded while another is computed, and one that is on
its way. More would claim tiles earlier than they are needed; but each of the warpgroups that take
turns needs an entry of its own, since it looks at every so many only, and a barrier tells no more
than a phase from the next."""


@dataclass(frozen=True, slots=True)
class LoopsFromQueue:
    """Loops over a CTA's tiles that end when the queue says so, all others as in turn.

    Args:
        inner: loops in turn.
        first: the outermost one, over the tiles.
        queue: the ring of the queue's entries.
        word: the ring's buffer.
        group: loops whose index an entry is.
        tiles: how many tiles there are.
    """

    inner: LoopsInTurn
    first: LoadLoop
    queue: Ring
    word: SharedBuffer
    group: Group
    tiles: Expr

    @staticmethod
    def of(inner: LoopsInTurn, relation: LoadRelation, group: Group) -> LoopsFromQueue:
        """The loops of tiles ``group``, which are dealt out at run time.

        Args:
            inner: the loops that there would be in turn.
            relation: of the operands.
            group: what is dealt out.
        """
        shared = inner.shared
        name, teams = shared.namer.new("queue"), relation.warpgroups.teams
        word = SharedBuffer(shared.namer.new(f"{name}_tile"), DType.S32, 1, (1,))
        queue = Ring(name, (word.name,), max(STAGES, teams), teams, remote=True)
        tiles = shared.apply(group.extent)
        return LoopsFromQueue(inner, relation.nest[0], queue, word, group, tiles)

    @property
    def shared(self) -> Shared:
        """Names that all sections use."""
        return self.inner.shared

    @property
    def counters(self) -> tuple[Counter, ...]:
        """What the compute side's loops count."""
        return self.inner.counters

    def on_ctas(self, d: IterDomain) -> Expr:
        """The CTA's number."""
        return self.inner.on_ctas(d)

    def loop(self, counter: Counter, turn: Expr) -> Head:
        """A loop in turn, or the one that asks the queue."""
        head = self.inner.loop(counter, turn)
        first = counter.loop == self.first
        return self._dealt(head, head.known[counter.loop.group]) if first else head

    def step(self, relation: LoadRelation, found: Mapping[Group, Expr]) -> Expr | None:
        """The step of the CTA's tile, whichever that is."""
        return self.inner.step(relation, found)

    def ordinal(self, known: Mapping[Group, Expr]) -> Expr | None:
        """How many tiles the CTA had before."""
        return self.inner.ordinal(known)

    def earlier(self, known: Mapping[Group, Expr]) -> Expr | None:
        """Entries of the queue that the CTA had before."""
        return self.inner.earlier(known)

    def loads(self, relation: LoadRelation) -> LoadNest:
        """Loops in turn, the outermost of which asks the queue."""
        nest = self.inner.loads(relation)
        head, *others = nest.heads
        return replace(nest, heads=(self._dealt(head, head.var), *others))

    def _dealt(self, head: Head, number: Expr) -> Head:
        """A loop over a CTA's tiles, which ends before its bound: one for each, one for the end."""
        tile = Var(self.shared.namer.new("dealt"))
        asked = NextTile(tile, self.queue.name, number, self.tiles)
        entry: Body = (asked, Break(self.tiles <= tile))
        known = {**head.known, self.group: tile}
        return replace(head, stop=self.tiles + 1, known=known, entry=entry, defined=(tile,))

    @property
    def storage(self) -> tuple[Storage, ...]:
        """The queue."""
        return self.word, self.queue

    def sections(self, registers: int | None) -> tuple[Section, ...]:
        """What takes tiles."""
        return (Section("load", (FetchTiles(self.queue.name, self.tiles),), registers=registers),)
