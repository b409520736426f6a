"""Tiles that are dealt out at run time: every section reads from the queue which one is next.

What the legality relation says of load steps stands: step ``m`` is step ``m % steps`` of the CTA's
tile number ``m // steps``. Only which tile that is, and that there is none any more, comes from the
queue. Who fills it, and what its entries say, follows from the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Expr, Var
from lowering.kernel.kernel import Ring, SharedBuffer, Storage
from lowering.kernel.nodes import Body, Break, NextTile, Section
from lowering.nest.cluster import constant
from lowering.nest.counter import Counter
from lowering.nest.loops_in_turn import LoopsInTurn
from lowering.nest.scope import Shared
from lowering.nest.work_loops import Head, LoadNest
from wsched.fusion import IterDomain
from wsched.schedule.graph import Group
from wsched.schedule.proof.relation import LoadRelation

__all__ = ["Entries", "LoopsFromQueue", "Queue", "Word"]

STAGES = 2
"""Entries of a queue: one for the tile that is loaded while another is computed, and one that is on
its way. More would claim tiles earlier than they are needed; but each of the warpgroups that take
turns needs an entry of its own, since it looks at every so many only, and a barrier tells no more
than a phase from the next."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the entries of a queue.

    Args:
        group: loops whose index it is.
        stored: what its buffer is called, behind the queue's name.
        read: what a section calls it.
    """

    group: Group
    stored: str
    read: str


class Entries(Protocol):
    """What the entries of a queue say, and who fills it."""

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of an entry."""

    @property
    def end(self) -> Expr:
        """What the first word is at least, in entries behind the last tile."""

    @property
    def most(self) -> Expr:
        """How many tiles there are at most."""

    @property
    def remote(self) -> bool:
        """Whether one CTA fills the queues of all of a cluster."""

    @property
    def storage(self) -> tuple[Storage, ...]:
        """What it takes beside the queue."""

    def filling(self, queue: Ring) -> Body:
        """What fills the queue; one thread."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Words in shared memory that say which tile is next: one for all sections of a kernel.

    Args:
        dealt: the loops over tiles.
        ring: of the entries.
        buffers: the ring's buffers, one for each word of an entry.
        entries: what they say.
    """

    dealt: Group
    ring: Ring
    buffers: tuple[SharedBuffer, ...]
    entries: Entries

    @staticmethod
    def of(
        shared: Shared, parts: Sequence[tuple[Counter, ...]], dealt: Group, entries: Entries
    ) -> Queue:
        """The queue of tiles that are dealt out at run time.

        Args:
            shared: names that all sections use.
            parts: what the loops of each part that computes count.
            dealt: the loops over tiles.
            entries: of the queue.

        Raises:
            UnsupportedError: parts whose warpgroups take turns with tiles, but not as many.
        """
        new = shared.namer.new
        name, teams = new("queue"), _teams(parts, dealt)
        buffers = tuple(
            SharedBuffer(new(f"{name}_{w.stored}"), DType.S32, 1, (1,)) for w in entries.words
        )
        names, stages = tuple(b.name for b in buffers), max(STAGES, teams)
        ring = Ring(name, names, stages, teams, remote=entries.remote)
        return Queue(dealt, ring, buffers, entries)

    @property
    def storage(self) -> tuple[Storage, ...]:
        """The ring, and what is read by who fills it."""
        return *self.entries.storage, *self.buffers, self.ring

    def section(self, registers: int | None) -> Section:
        """Who fills it."""
        return Section("load", self.entries.filling(self.ring), registers=registers)


def _teams(parts: Sequence[tuple[Counter, ...]], dealt: Group) -> int:
    """How many warpgroups take turns with tiles; those of a part that do not read every entry."""
    found = (c.turns for counters in parts for c in counters if c.loop.group == dealt)
    turns = {constant(n, dealt.label) for n in found} - {1}
    if len(turns) > 1:
        what = f"parts of {' and '.join(map(str, sorted(turns)))} turns with tiles of a queue"
        raise UnsupportedError(what, "as many turns in all parts that take turns")
    return max(turns, default=1)


@dataclass(frozen=True, slots=True)
class LoopsFromQueue:
    """Loops over a CTA's tiles that end when the queue says so, all others as in turn.

    Args:
        inner: loops in turn.
        queue: that of the kernel.
    """

    inner: LoopsInTurn
    queue: Queue

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
        return self._dealt(head, head.known[counter.loop.group]) if self.asks(counter) else head

    def asks(self, counter: Counter) -> bool:
        """Whether a loop is the one over tiles."""
        return counter.loop.group == self.queue.dealt

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
        entries, name = self.queue.entries, self.queue.ring.name
        words, end = entries.words, entries.end
        read = tuple(Var(self.shared.namer.new(w.read)) for w in words)
        asked = (NextTile(v, name, number, end, at) for at, v in enumerate(read))
        entry: Body = (*asked, Break(end <= read[0]))
        known = {**head.known, **{w.group: v for w, v in zip(words, read, strict=True)}}
        stop = entries.most + 1
        return replace(head, stop=stop, known=known, entry=entry, defined=read)

    @property
    def storage(self) -> tuple[Storage, ...]:
        """The queue, and what fills it reads."""
        return self.queue.storage

    def sections(self, registers: int | None) -> tuple[Section, ...]:
        """What fills the queue."""
        return (self.queue.section(registers),)
