"""Hand tiles out at run time: an atomic takes the next one, a queue takes it to all who need it.

Requires: roles; one ``fetch.tiles`` by one thread of each CTA, ``next.tile`` by whole warps.
Guarantees: a counter in global memory that says how many tiles have been asked for, and is 0 again
when the grid ends; a circular buffer of words with full and empty mbarriers of its own, in every
CTA of the cluster.

*Who takes a tile.* One thread of the first CTA of each cluster, with ``atom.inc``. ``T`` tiles and
``C`` clusters make exactly ``T + C`` requests, because each cluster stops at the first answer that
is no tile, so that ``inc`` with limit ``T + C - 1`` comes back to 0 with the last request. Nothing
has to be reset, before the grid or behind it. Relaxed, because the answer is all that is told.

*When.* As soon as a stage of the queue is empty: behind the tile that is being computed and one
that is claimed, the next one is asked for. A tile's time covers the latency of the atomic.

*Full*: one arrival, behind the store of the word. *Empty*: one arrival a warp that reads, in all
CTAs of the cluster, at the barrier of the first CTA, whose thread waits. What is ordered here are
ordinary accesses to shared memory, so arrivals release and waits acquire, at the scope of the
cluster where it has several CTAs; all threads of a warp have read the word before one arrives. The
producer waits with the other parity than the readers, so that nobody arrives first.

*The end*: see ``NextTile``. The end marks are entries like others, and no reader reads one that is
not for it, so that every wait is met and no CTA has left while it may still be signalled: all roles
end in a sync of the CTA or cluster.

After ``expect_tx``, before ``step_stages`` (stages of the queue are stepped through like those of
the operands).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE, ZERO, Expr, Special, Var, minimum
from lowering.kernel.kernel import CounterArray, Kernel, MBarrierArray, TileQueue, WordArray
from lowering.kernel.nodes import (
    Atom,
    Body,
    Break,
    CounterRef,
    Elect,
    FenceMBarrierInit,
    FetchTiles,
    For,
    If,
    LdWord,
    Let,
    MBarrierArrive,
    MBarrierInit,
    MBarrierInval,
    MBarrierRef,
    MBarrierWait,
    NextTile,
    Role,
    Roles,
    Stmt,
    StWord,
    WarpSync,
    WordRef,
    one_thread,
)
from lowering.kernel.visit import Names, rewrite, walk
from passes.options import LoweringOptions

__all__ = ["queue_tiles"]

WARPS_PER_GROUP = 4

_Make = Callable[[MBarrierRef, int], Stmt]


def queue_tiles(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Counter, words and barriers for each tile queue; nothing for other schedules.

    before::

        tile_queue queue stages 2 groups 2 consumers 2
        role compute: for t ... { tile: i32 = next.tile queue, t  break n <= tile  ... }
        role load:    elect { fetch.tiles queue, n }

    after::

        counter next[1]
        word queue_tile[2]
        mbarrier queue_full[2] arrivals 1
        mbarrier queue_empty[2] arrivals 9
        (init, before that of the other barriers)
        role compute:
          for t ... {
            mbarrier.wait queue_full[t % 2], t // 2 % 2
            tile: i32 = ld.word queue_tile[t % 2]
            warp.sync
            elect { mbarrier.arrive queue_empty[t % 2] }
            break n <= tile
            ...
        role load:
          elect {
            for i in 0 .. n + 1 {
              mbarrier.wait queue_empty[i % 2], i // 2 % 2 ^ 1
              ticket: i32 = atom inc, next[0], n + %nctaid.x - 1
              let taken: i32 = min(ticket, n)
              st.word queue_tile[i % 2], taken
              mbarrier.arrive queue_full[i % 2]
              break n <= taken
            }
          }
        (inval, behind that of the other barriers)
    """
    for queue in kernel.tile_queues:
        kernel = _Queue.of(kernel, queue).placed(kernel)
    return kernel.undeclare(TileQueue)


@dataclass(frozen=True, slots=True)
class _Queue:
    """A tile queue with its storage; ``ctas`` of a cluster share it."""

    queue: TileQueue
    names: Names
    ctas: int
    counter: CounterArray
    words: WordArray
    full: MBarrierArray
    empty: MBarrierArray

    @staticmethod
    def of(kernel: Kernel, queue: TileQueue) -> _Queue:
        names, name, stages = Names(kernel), queue.name, queue.stages
        readers = sum(_readers(r, queue) for s in kernel.body if isinstance(s, Roles)
                      for r in s.roles)  # fmt: skip
        if not readers:
            raise InternalError("queue_tiles", f"nobody reads {name}")
        return _Queue(
            queue,
            names,
            kernel.cluster,
            CounterArray(names.new("next"), ONE),
            WordArray(names.new(f"{name}_tile"), stages),
            MBarrierArray(names.new(f"{name}_full"), stages, 1),
            MBarrierArray(names.new(f"{name}_empty"), stages, readers * kernel.cluster),
        )

    def placed(self, kernel: Kernel) -> Kernel:
        """The kernel with the queue's storage, and its statements as operations on that."""
        body = rewrite(kernel.body, self.lowered)
        init = self.each("init", lambda bar, n: MBarrierInit(bar, n), FenceMBarrierInit())
        inval = self.each("inval", lambda bar, n: MBarrierInval(bar))
        kernel = kernel.declare(self.full, self.empty, self.counter, self.words)
        return replace(kernel, body=(init, *body, inval))

    def each(self, what: str, make: _Make, *behind: Stmt) -> Stmt:
        """One thread does something with every barrier of the queue."""
        index = Var(self.names.new(f"{self.queue.name}_{what}"))
        body = tuple(make(MBarrierRef(a.name, index), a.arrivals) for a in (self.full, self.empty))
        loop = For(index, ZERO, ZERO + self.queue.stages, body, unroll=True)
        return one_thread(loop, *behind)

    def lowered(self, stmt: Stmt) -> Body | None:
        """A statement of the queue as operations on its storage."""
        match stmt:
            case FetchTiles(name, tiles) if name == self.queue.name:
                loop = self.fetch(tiles)
                return (loop if self.ctas == 1 else If(Special("cluster.ctarank").eq(0), (loop,)),)
            case NextTile(out, name, number) if name == self.queue.name:
                return self.read(out, number)
        return None

    def fetch(self, tiles: Expr) -> For:
        """The loop of the thread that takes tiles."""
        number, ticket, taken = (Var(self.names.new(n)) for n in ("entry", "ticket", "taken"))
        clusters = Special("nctaid.x") // self.ctas if self.ctas > 1 else Special("nctaid.x")
        at = CounterRef(self.counter.name, ZERO)
        body: Body = (
            self.wait_empty(number),
            Atom(ticket, "inc", at, tiles + clusters - 1),
            Let(taken, minimum(ticket, tiles)),
            *self.push(number, taken),
        )
        ends = self.queue.groups // self.queue.consumers
        further = (
            s for i in range(1, ends)
            for s in (self.wait_empty(number + i), *self.push(number + i, tiles + i))
        )  # fmt: skip
        if ends > 1:
            body += (If(tiles <= taken, tuple(further)),)
        # A cluster that takes all tiles has one more entry, the end.
        return For(number, ZERO, tiles + 1, (*body, Break(tiles <= taken)))

    def wait_empty(self, number: Expr) -> Stmt:
        parity = number // self.queue.stages % 2 ^ 1
        return MBarrierWait(self.bar(self.empty, number), parity, order=self.order("acquire"))

    def push(self, number: Expr, value: Expr) -> Body:
        """An entry for every CTA of the cluster, behind each its arrival."""
        word = WordRef(self.words.name, number % self.queue.stages)
        bar = self.bar(self.full, number)
        if self.ctas == 1:
            return StWord(word, value), MBarrierArrive(bar)
        rank = Var(self.names.new("rank"))
        order = self.order("release")
        store: Body = (StWord(word, value, cta=rank), MBarrierArrive(bar, cta=rank, order=order))
        return (For(rank, ZERO, ZERO + self.ctas, store, unroll=True),)

    def read(self, out: Var, number: Expr) -> Body:
        """A reader's wait, the word, and the release of its stage."""
        parity, cta = number // self.queue.stages % 2, None if self.ctas == 1 else ZERO
        release = MBarrierArrive(self.bar(self.empty, number), cta, self.order("release"))
        return (
            MBarrierWait(self.bar(self.full, number), parity, order=self.order("acquire")),
            LdWord(out, WordRef(self.words.name, number % self.queue.stages)),
            WarpSync(),
            Elect((release,)),
        )

    def bar(self, array: MBarrierArray, number: Expr) -> MBarrierRef:
        return MBarrierRef(array.name, number % self.queue.stages)

    def order(self, semantics: str) -> str:
        return f"{semantics}.{'cta' if self.ctas == 1 else 'cluster'}"


def _readers(role: Role, queue: TileQueue) -> int:
    """Warps of a CTA that read an entry: those of the compute warpgroups that it is for, and each
    warp of the load warpgroup that has a loop of its own.
    """
    reads = sum(isinstance(s, NextTile) and s.queue == queue.name for s in walk(role.body))
    if role.group is None:
        return reads
    if reads > 1:
        raise InternalError("queue_tiles", f"role {role.name} reads an entry {reads} times")
    return reads * WARPS_PER_GROUP * queue.consumers
