"""Hand tiles out at run time: an atomic takes the next one, a queue takes it to all who need it.

Requires: roles; one ``fetch.tiles`` by one thread of each CTA, or ``take.ticket`` and ``hand.tile``
by one that finds out itself which tile a ticket is; ``next.tile`` by whole warps; the queue is a
ring of words.
Guarantees: for what is fetched a counter in global memory that says how many tiles have been asked
for, and is 0 again when the grid ends; the queue's entries are steps of its ring, which
``allocate_mbarriers`` lowers like any other's.

*Who takes a tile.* One thread of the first CTA of each cluster, with ``atom.inc``. ``T`` tiles and
``C`` clusters make exactly ``T + C`` requests, because each cluster stops at the first answer that
is no tile, so that ``inc`` with limit ``T + C - 1`` comes back to 0 with the last request. Nothing
has to be reset, before the grid or behind it. Relaxed, because the answer is all that is told. Who
finds out on the way how many tiles there are (``end.tickets``) adds, and sets the counter to 0 if
its last ticket is the last of all, ``T + C - 1``: nobody takes another.

*When.* As soon as a stage of the queue is empty: behind the tile that is being computed and one
that is claimed, the next one is asked for. A tile's time covers the latency of the atomic. Tickets
are of tiles that take different times, and whose neighbours share operands in the L2 if they run at
about the same time: so who loads a tile releases its entry when it has, and a CTA claims the tile
behind the one that it begins to load, not the one behind that.

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
    EndTickets,
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
    TakeTicket,
    WaitFull,
)
from lowering.kernel.traits import Memory
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

    ``take.ticket`` is an ``acquire`` and an ``atom add``, ``hand.tile`` stores a word of an entry,
    behind the ``acquire`` in front of the first, if that is not the ticket's, and with a ``commit``
    behind the last, and ``end.tickets`` is ``if ticket == tiles + %nctaid.x - 1`` and an ``atom
    exch`` of 0. Who hands over without a ticket needs no counter.
    """
    counted = {s.ring for s in walk(kernel.body) if isinstance(s, FetchTiles | TakeTicket)}
    handed = {s.ring for s in walk(kernel.body) if isinstance(s, HandTile)}
    for ring in kernel.rings:
        if ring.name in counted | handed:
            kernel = _Queue.of(kernel, ring).placed(kernel, ring.name in counted)
    return kernel


@dataclass(frozen=True, slots=True)
class _Queue:
    """A tile queue and its counter; ``ctas`` of a cluster share it. With ``late`` who loads tiles
    keeps an entry until it has.
    """

    ring: Ring
    names: Names
    ctas: int
    counter: CounterArray
    late: bool

    @staticmethod
    def of(kernel: Kernel, ring: Ring) -> _Queue:
        names = Names(kernel)
        ctas = kernel.cluster if ring.remote else 1
        late = any(isinstance(s, TakeTicket) and s.ring == ring.name for s in walk(kernel.body))
        return _Queue(ring, names, ctas, CounterArray(names.new("next"), ONE), late)

    def placed(self, kernel: Kernel, counted: bool) -> Kernel:
        """The kernel with the queue's statements as steps of the ring, and with the counter, if
        tiles are ``counted``.
        """
        declared = kernel.declare(self.counter) if counted else kernel
        return replace(declared, body=rewrite(kernel.body, self.lowered))

    def lowered(self, stmt: Stmt) -> Body | None:
        """A statement of the queue as steps of its ring."""
        match stmt:
            case For() if self.late:
                return (self.held(stmt),)
            case FetchTiles(name, tiles) if name == self.ring.name:
                loop = self.fetch(tiles)
                return (loop if self.ctas == 1 else If(Special("cluster.ctarank").eq(0), (loop,)),)
            case HandTile(name, number, value, word, claimed) if name == self.ring.name:
                waits = () if word or claimed else (Acquire(name, number),)
                return *waits, *self.push(number, value, word)
            case TakeTicket(out, name, number) if name == self.ring.name:
                return Acquire(name, number), Atom(out, "add", self.at, ONE)
            case EndTickets(name, ticket, tiles) if name == self.ring.name:
                reset = Atom(Var(self.names.new("ticket")), "exch", self.at, ZERO)
                return (If(ticket.eq(tiles + self.clusters - 1), (reset,)),)
            case NextTile(out, name, number, _, word) if name == self.ring.name:
                first = () if word else (WaitFull(name, number),)
                last = (Release(name, number),) if self.ends(word) else ()
                return *first, LdWord(out, self.word(number, word)), *last
        return None

    def held(self, loop: For) -> For:
        """A loop over tiles that loads them, which releases an entry when it has."""
        ours = (n for n, s in enumerate(loop.body)
                if isinstance(s, Release) and s.ring == self.ring.name)  # fmt: skip
        at = next(ours, None)
        loads = any(s.TRAITS.writes & Memory.SHARED_ASYNC for s in walk(loop.body))
        if at is None or not loads:
            return loop
        release, behind = loop.body[at], list(loop.body[at + 1 :])
        end = next(n for n, s in enumerate(behind) if isinstance(s, Break))
        last = behind[end]
        assert isinstance(last, Break)
        behind.insert(end, If(last.cond, (release,)))
        return replace(loop, body=(*loop.body[:at], *behind, release))

    @property
    def at(self) -> CounterRef:
        """How many tiles have been asked for."""
        return CounterRef(self.counter.name, ZERO)

    @property
    def clusters(self) -> Expr:
        """How many clusters ask."""
        return Special("nctaid.x") // self.ctas if self.ctas > 1 else Special("nctaid.x")

    def ends(self, word: int) -> bool:
        """Whether it is the last word of an entry."""
        return word == len(self.ring.buffers) - 1

    def word(self, number: Expr, word: int = 0) -> SmemRef:
        """A word of an entry: each has a buffer."""
        return SmemRef(self.ring.buffers[word], stage_of(number, self.ring.stages), (ZERO,))

    def fetch(self, tiles: Expr) -> For:
        """The loop of the thread that takes tiles."""
        number, ticket, taken = (Var(self.names.new(n)) for n in ("entry", "ticket", "taken"))
        body: Body = (
            Acquire(self.ring.name, number),
            Atom(ticket, "inc", self.at, tiles + self.clusters - 1),
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

    def push(self, number: Expr, value: Expr, word: int = 0) -> Body:
        """A word of an entry for every CTA of the cluster, behind the last its arrival."""
        alone = self.ctas == 1
        rank = None if alone else Var(self.names.new("rank"))
        store = StWord(self.word(number, word), value, cta=rank)
        told = (Commit(self.ring.name, number, cta=rank),) if self.ends(word) else ()
        if rank is None:
            return store, *told
        return (For(rank, ZERO, ZERO + self.ctas, (store, *told), unroll=True),)
