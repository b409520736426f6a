"""The mbarriers of a ring, and its steps as operations on them, for ``allocate_mbarriers``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ZERO, Binary, Const, Expr, Special, Var, parity_of, stage_of
from lowering.ground.frozen import replaced
from lowering.kernel.cta_group import CtaGroup
from lowering.kernel.kernel import Kernel, MBarrierArray, Ring
from lowering.kernel.nodes import (
    Acquire,
    Body,
    Commit,
    CpAsyncArrive,
    Elect,
    FenceProxyAsync,
    For,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierInval,
    MBarrierRef,
    MBarrierWait,
    OnWarp,
    Release,
    Stmt,
    Tcgen05Commit,
    Tcgen05Fence,
    TmaLoad,
    WaitFull,
    WarpSync,
)
from lowering.kernel.ring_ends import Ends, announces, copies, ends_of, stores
from lowering.kernel.traits import Memory
from lowering.kernel.visit import Names, map_bodies

__all__ = ["Barriers", "Steps", "step_of"]

RELAXED = "relaxed.cluster"


@dataclass(frozen=True, slots=True)
class Barriers:
    """A ring with its mbarriers.

    Args:
        ring: what they are of.
        ends: who fills and reads it.
        full: told of by who fills a stage.
        empty: told of by who has read it.
        peers: ranks that multicast into its stages as we do into theirs, where each CTA reads its
            own.
        ctas: of the cluster that one of them fills it for ...
        home: ... and the rank of that one, at whose barriers all release.
        group: CTAs that have a part of one product.
        told: of products that fill or read it, a mask of the CTAs that are told; None for the one
            alone.
        leaders: whose products tell a CTA that they have read.
    """

    ring: Ring
    ends: Ends
    full: MBarrierArray
    empty: MBarrierArray
    peers: tuple[Expr, ...]
    ctas: int
    home: Expr
    group: CtaGroup
    told: Expr | None
    leaders: int

    @staticmethod
    def of(kernel: Kernel, ring: Ring, names: Names) -> Barriers:
        """With as many arrivals as those who fill and read it make."""
        ends, group = ends_of(kernel, ring), kernel.cta_group
        peers, leaders = _peers(ring), 1
        told: Expr | None = None
        home: Expr = ZERO
        if ends.issued:  # one thread tells all who load
            peers, (told, leaders) = (), group.told(ring.shares)
        ctas = kernel.cluster if ring.remote else 1
        if ends.summed:
            ctas, home, told = group.size, group.leader, group.told(())[0]
        full = MBarrierArray(names.new(f"{ring.name}_full"), ring.stages, ends.full)
        arrivals = ends.empty * (1 + len(peers)) * ctas * leaders
        empty = MBarrierArray(names.new(f"{ring.name}_empty"), ring.stages, arrivals)
        return Barriers(ring, ends, full, empty, peers, ctas, home, group, told, leaders)

    @property
    def in_cluster(self) -> bool:
        """Whether other CTAs tell of its stages, or are told."""
        return self.ctas > 1 or bool(self.peers) or self.told is not None

    @property
    def read_together(self) -> bool:
        """Whether products read a stage of several CTAs, which is full where they are issued."""
        return self.ends.issued and self.group.several

    def each(
        self,
        names: Names,
        name: str,
        make: Callable[[MBarrierRef], Body],
        *of: MBarrierArray,
    ) -> For:
        """What ``make`` says for every stage of some of the arrays."""
        index = Var(names.new(f"{self.ring.name}_{name}"))
        body = tuple(s for array in of for s in make(MBarrierRef(array.name, index)))
        return For(index, ZERO, ZERO + self.ring.stages, body, unroll=True)

    def initialised(self, bar: MBarrierRef) -> Body:
        """With the arrivals of its array."""
        array = self.full if bar.array == self.full.name else self.empty
        return (MBarrierInit(bar, array.arrivals),)

    def released(self, bar: MBarrierRef) -> Body:
        """A stage is given back to all who fill it."""
        if self.ctas > 1:
            return (MBarrierArrive(bar, cta=self.home, order="release.cluster"),)
        order = "release.cluster" if self.loaded_by_threads else RELAXED
        there = (MBarrierArrive(bar, cta=peer, order=order) for peer in self.peers)
        return (*(MBarrierArrive(bar) for _ in range(self.leaders)), *there)

    @property
    def loaded_by_threads(self) -> bool:
        """Whether who reads its stages loads them, or has stored them: what a peer copies there has
        to come behind that, which a relaxed arrival does not say. Reads of wgmma are over when a
        stage is given back.
        """
        return self.ends.reads(Memory.SHARED) or self.ends.stored_in_place

    @staticmethod
    def invalidated(bar: MBarrierRef) -> Body:
        """Its memory is for others."""
        return (MBarrierInval(bar),)


def _peers(ring: Ring) -> tuple[Expr, ...]:
    """Ranks of the other CTAs that multicast into our stages, as we do into theirs."""
    rank = Special("cluster.ctarank")
    found: list[Expr] = []
    for count, stride in dict.fromkeys(ring.shares):
        if count == 2 and stride & (stride - 1) == 0:  # the pair differs in one bit
            found.append(rank ^ stride)
            continue
        mine = rank // stride % count
        for other in range(1, count):
            found.append(rank + ((mine + other) % count - mine) * stride)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Filling:
    """A step that is being filled: the barrier of its stage, and what threads do for it."""

    bar: MBarrierRef
    stored: bool
    copied: bool


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a ring in one role, as operations on its barriers."""

    of: Barriers
    role: str

    def placed(self, body: Body, filling: _Filling | None, one: bool = False) -> Body:
        """``body`` of one thread, or of whole warps, in a step or in front of it."""
        ring = self.of.ring
        out: list[Stmt] = []
        announced: _Filling | None = None
        for n, stmt in enumerate(body):
            match stmt:
                case Acquire(ring=name, step=m) if name == ring.name:
                    rest = body[n + 1 :]
                    filling = _Filling(
                        self._at(self.of.full, m), stores(ring, rest), copies(ring, rest)
                    )
                    wait = self._wait(self.of.empty, m, self._empty_order(filling))
                    out += (wait, *self._ordered)
                case Commit(ring=name, step=m, cta=cta) if name == ring.name and filling:
                    out += self._committed(
                        replaced(filling, bar=self._at(self.of.full, m)), cta, one
                    )
                case WaitFull(ring=name, step=m) if name == ring.name:
                    out += self._waited(m)
                case Release(ring=name, step=m) if name == ring.name:
                    out += self._released(m, one)
                case TmaLoad() if announces(ring, stmt) and filling:
                    together = self.of.read_together
                    if announced != filling:
                        expect: Body = (MBarrierExpectTx(filling.bar),)
                        out += self.of.group.led(expect) if together else expect
                    announced, size = filling, self.of.group.size if together else 1
                    out.append(replaced(stmt, bar=filling.bar, cta_group=size))
                case _:
                    inside = partial(
                        self.placed, filling=filling, one=one or isinstance(stmt, Elect)
                    )
                    out.append(map_bodies(stmt, inside))
        return tuple(out)

    def _at(self, array: MBarrierArray, m: Expr) -> MBarrierRef:
        return MBarrierRef(array.name, stage_of(m, self.of.ring.stages))

    def _wait(self, array: MBarrierArray, m: Expr, order: str) -> Stmt:
        return MBarrierWait(self._at(array, m), parity_of(m, self.of.ring.stages), order=order)

    def _empty_order(self, filling: _Filling) -> str:
        """Reads of products are complete when they are told of, and what TMA copies comes behind
        the wait whatever its order. What threads have read is acquired; and what threads themselves
        write behind the wait, a relaxed one would let come in front of it.
        """
        by_products = self.of.ends.issued and self.of.told is not None
        if not by_products and not self.of.peers:
            return self._full_order
        loaded = not by_products and self.of.loaded_by_threads
        return "acquire.cluster" if loaded or filling.stored or filling.copied else RELAXED

    @property
    def _full_order(self) -> str:
        alone = self.of.ctas == 1 and not self.of.read_together
        return "acquire.cta" if alone else "acquire.cluster"

    def _committed(self, filling: _Filling, cta: Expr | None, one: bool) -> Body:
        """What threads have written is there: behind a fence for those who read asynchronously."""
        if self.of.ends.summed:
            commit = _issued(Tcgen05Commit(filling.bar, self.of.told), one)
            alone = () if one else self.of.ends.issuers
            return tuple(OnWarp(warp, commit) for warp in alone) or commit
        order = "release.cta" if cta is None else "release.cluster"
        arrive: Body = (MBarrierArrive(filling.bar, cta, order),)
        if not one:
            arrive = WarpSync(), Elect(arrive)
        if self.of.ends.reads(Memory.SHARED_ASYNC):
            arrive = FenceProxyAsync(), *arrive
        landed = (CpAsyncArrive(filling.bar),) if filling.copied else ()
        return (*(arrive if filling.stored else ()), *landed)

    def _waited(self, m: Expr) -> Body:
        wait = self._wait(self.of.full, m, self._full_order)
        copied = any(f.copies for f in self.of.ends.fills)
        fenced = copied and self.of.ends.reads(Memory.SHARED_ASYNC, self.role)
        return (wait, FenceProxyAsync()) if fenced else (wait, *self._ordered)

    @property
    def _ordered(self) -> Body:
        """What orders accesses to tensor memory behind a wait for others'."""
        return (Tcgen05Fence("after"),) if self.of.ends.summed else ()

    def _released(self, m: Expr, one: bool) -> Body:
        ends, bar = self.of.ends, self._at(self.of.empty, m)
        if ends.issues(self.role):
            if ends.reads(Memory.SHARED, self.role):
                raise UnsupportedError(
                    f"stages of {self.of.ring.name} that threads of {self.role} read beside "
                    "tcgen05",
                    "stages that products alone read",
                )
            return _issued(Tcgen05Commit(bar, self.of.told), one)
        head: Body = ()
        if ends.reads(Memory.TENSOR, self.role):
            head = (Tcgen05Fence("before"), WarpSync())
        if ends.reads(Memory.SHARED, self.role):
            loaded = any(f.announcements for f in ends.fills)
            head = (FenceProxyAsync(), WarpSync()) if loaded else (WarpSync(),)
        return (*head, Elect(self.of.released(bar)))


def _issued(stmt: Stmt, one: bool) -> Body:
    """A statement of one thread, in what one executes or not."""
    return (stmt,) if one else (Elect((stmt,)),)


def step_of(stmt: Stmt) -> tuple[Expr, int, str] | None:
    """(m, stages, array) of an operation on a barrier of step ``m`` itself."""
    match getattr(stmt, "bar", None):
        case MBarrierRef(array, Binary("stage", m, Const(stages))):
            return m, stages, array
    return None
