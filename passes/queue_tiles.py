"""Hand tiles out at run time: an atomic takes the next one, a queue takes it to all who need it.

Requires: roles; one ``fetch.tiles`` by one thread of each CTA, or ``hand.tile`` by one that finds
out itself which tile is next; ``next.tile`` by whole warps; the queue is a ring of words.
Guarantees: for what is fetched a counter in global memory that says how many tiles have been asked
for, and is 0 again when the grid ends; the queue's entries are steps of its ring, which
``allocate_mbarriers`` lowers like any other's.

*Who takes a tile.* One thread of the first CTA of each cluster, with ``atom.inc``. ``T`` tiles and
``C`` clusters make exactly ``T + C`` requests, because each cluster stops at the first answer that
is no tile, so that ``inc`` with limit ``T + C - 1`` comes back to 0 with the last request. Nothing
has to be reset, before the grid or behind it. Relaxed, because the answer is all that is told.

*When.* As soon as a stage of the queue is empty: behind the tile that is being computed and one
that is claimed, the next one is asked for. A tile's time covers the latency of the atomic.

*The end*: see ``NextTile``. The end marks are entries like others, and no reader reads one that is
not for it, so that every wait is met and no CTA has left while it may still be signalled: all roles
end in a sync of the CTA or cluster.

After ``circular_buffer`` (the word has its stages) and ``order_pingpong`` (which reads the loops
over tiles), before ``allocate_mbarriers``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.ground.expr import ONE, ZERO, Expr, Special, Var, minimum, stage_of
from lowering.kernel.kernel import CounterArray, Kernel, Ring
from lowering.kernel.nodes import (
    Acquire,
    Atom,
    Body,
    Break,
    Commit,
    CounterRef,
    FetchTiles,
    For,
    HandTile,
    If,
    LdWord,
    Let,
    NextTile,
    Release,
    SmemRef,
    Stmt,
    StWord,
    WaitFull,
)
from lowering.kernel.visit import Names, rewrite, walk
from passes.options import LoweringOptions

__all__ = ["queue_tiles"]


def queue_tiles(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """A counter for each tile queue, and steps of its ring; nothing for other schedules.

    before::

        ring queue(queue_tile) stages 2 remote
        role compute: for t ... { tile: i32 = next.tile queue, t, n  break n <= tile  ... }
        role load:    elect { fetch.tiles queue, n }

    after::

        counter next[1]
        role compute:
          for t ... {
            wait_full queue, t
            tile: i32 = ld.word queue_tile[stage(t, 2), 0]
            release queue, t
            break n <= tile
            ...
        role load:
          elect {
            for i in 0 .. n + 1 {
              acquire queue, i
              ticket: i32 = atom inc, next[0], n + %nctaid.x - 1
              let taken: i32 = min(ticket, n)
              st.word queue_tile[stage(i, 2), 0], taken
              commit queue, i
              break n <= taken
            }
          }

    What a thread hands over itself needs no counter: ``hand.tile`` stores a word of an entry,
    between the ``acquire`` in front of the first and the ``commit`` behind the last.
    """
    fetched = {s.ring for s in walk(kernel.body) if isinstance(s, FetchTiles)}
    handed = {s.ring for s in walk(kernel.body) if isinstance(s, HandTile)}
    for ring in kernel.rings:
        if ring.name in fetched | handed:
            kernel = _Queue.of(kernel, ring).placed(kernel, ring.name in fetched)
    return kernel


@dataclass(frozen=True, slots=True)
class _Queue:
    """A tile queue and its counter; ``ctas`` of a cluster share it."""

    ring: Ring
    names: Names
    ctas: int
    counter: CounterArray

    @staticmethod
    def of(kernel: Kernel, ring: Ring) -> _Queue:
        names = Names(kernel)
        ctas = kernel.cluster if ring.remote else 1
        return _Queue(ring, names, ctas, CounterArray(names.new("next"), ONE))

    def placed(self, kernel: Kernel, fetched: bool) -> Kernel:
        """The kernel with the queue's statements as steps of the ring, and with the counter that
        tiles are ``fetched`` with.
        """
        declared = kernel.declare(self.counter) if fetched else kernel
        return replace(declared, body=rewrite(kernel.body, self.lowered))

    def lowered(self, stmt: Stmt) -> Body | None:
        """A statement of the queue as steps of its ring."""
        match stmt:
            case FetchTiles(name, tiles) if name == self.ring.name:
                loop = self.fetch(tiles)
                return (loop if self.ctas == 1 else If(Special("cluster.ctarank").eq(0), (loop,)),)
            case HandTile(name, number, value, word) if name == self.ring.name:
                store = StWord(self.word(number, word), value)
                return self.around(word, Acquire(name, number), store, Commit(name, number))
            case NextTile(out, name, number, _, word) if name == self.ring.name:
                load = LdWord(out, self.word(number, word))
                return self.around(word, WaitFull(name, number), load, Release(name, number))
        return None

    def around(self, word: int, first: Stmt, stmt: Stmt, last: Stmt) -> Body:
        """An access to a word, in the step that its entry is."""
        begins, ends = word == 0, word == len(self.ring.buffers) - 1
        return (*((first,) if begins else ()), stmt, *((last,) if ends else ()))

    def word(self, number: Expr, word: int = 0) -> SmemRef:
        """A word of an entry: each has a buffer."""
        return SmemRef(self.ring.buffers[word], stage_of(number, self.ring.stages), (ZERO,))

    def fetch(self, tiles: Expr) -> For:
        """The loop of the thread that takes tiles."""
        number, ticket, taken = (Var(self.names.new(n)) for n in ("entry", "ticket", "taken"))
        clusters = Special("nctaid.x") // self.ctas if self.ctas > 1 else Special("nctaid.x")
        at = CounterRef(self.counter.name, ZERO)
        body: Body = (
            Acquire(self.ring.name, number),
            Atom(ticket, "inc", at, tiles + clusters - 1),
            Let(taken, minimum(ticket, tiles)),
            *self.push(number, taken),
        )
        further = (
            s for i in range(1, self.ring.teams)
            for s in (Acquire(self.ring.name, number + i), *self.push(number + i, tiles + i))
        )  # fmt: skip
        if self.ring.teams > 1:
            body += (If(tiles <= taken, tuple(further)),)
        # A cluster that takes all tiles has one more entry, the end.
        return For(number, ZERO, tiles + 1, (*body, Break(tiles <= taken)))

    def push(self, number: Expr, value: Expr) -> Body:
        """An entry for every CTA of the cluster, behind each its arrival."""
        if self.ctas == 1:
            return StWord(self.word(number), value), Commit(self.ring.name, number)
        rank = Var(self.names.new("rank"))
        store = StWord(self.word(number), value, cta=rank)
        told = Commit(self.ring.name, number, cta=rank)
        return (For(rank, ZERO, ZERO + self.ctas, (store, told), unroll=True),)
