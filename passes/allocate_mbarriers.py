"""Realise the steps of rings with full and empty mbarriers.

Requires: ``acquire``/``commit``/``wait_full``/``release`` inside roles; releases wait-covered
(``synchronize_wgmma``).
Guarantees: two mbarrier arrays for each ring, initialised by one thread before the roles begin and
made visible to every thread and to the async proxy; invalidated after all roles ended.

How many arrivals a phase takes follows from who fills and who reads
(``lowering.kernel.ring_ends``); several roles may do either.

*Full* of a stage: one arrival by each thread that announces what TMA brings (``expect_tx``) plus
those bytes, one by each warp that stores, one by each thread that copies by ``cp.async``. Waited
for with parity ``(m / stages) & 1``.
*Empty* of a stage: one arrival per warp that reads the stage, made by one elected thread, of wgmma
after that warp's ``wgmma.wait``. The readers arrive once on every stage before their first step, as
the proposal does, so that those who fill wait with the same parity as the readers. Where teams take
steps in turn, only the first one makes those first arrivals, whether it has a tile or not.

*Proxies.* What ``ld.shared`` or ``ldmatrix`` read is released behind a ``warp.sync``, because the
arrival of one thread alone does not order the other threads' reads; where TMA fills the ring,
behind ``fence.proxy.async`` by every thread as well, since the next copy goes through another
proxy. What threads have stored is committed behind a ``warp.sync``, and, for wgmma, behind their
fence. The arrival of ``cp.async`` is no thread's statement, so there the readers execute the fence,
behind their wait.

In a cluster whose CTAs fill each other's stages, a stage may be filled only when all its readers in
all CTAs have released it: each release arrives at the empty barrier of every CTA that multicasts to
ours, our own included. These arrivals and their waits are relaxed: what they order are reads by
wgmma, which ``wgmma.wait`` has completed, and copies that the load thread issues after its wait; no
ordinary memory access is published. A remote ring is released at the first CTA, which stores into
all; there ordinary accesses are ordered, so arrivals release and waits acquire at the scope of the
cluster. The init is then followed by a cluster-wide sync, and so is the end of the roles, because a
peer may still signal a CTA that has nothing left to do.

After ``synchronize_wgmma`` and ``queue_tiles``, before ``expect_tx`` (bytes) and ``step_stages``
(parity arithmetic).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from lowering.ground.expr import ZERO, Expr, Special, Var
from lowering.kernel.kernel import Kernel, MBarrierArray, Ring
from lowering.kernel.nodes import (
    Acquire,
    Body,
    ClusterSync,
    Commit,
    CpAsyncArrive,
    CtaSync,
    Elect,
    FenceMBarrierInit,
    FenceProxyAsync,
    For,
    If,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierInval,
    MBarrierRef,
    MBarrierWait,
    Release,
    Role,
    Roles,
    Stmt,
    TmaLoad,
    WaitFull,
    WarpSync,
    one_thread,
)
from lowering.kernel.ring_ends import Ends, announces, copies, ends_of, entering, stores
from lowering.kernel.traits import Memory
from lowering.kernel.visit import Names, consumes, map_bodies
from passes.options import LoweringOptions

__all__ = ["allocate_mbarriers"]

RELAXED = "relaxed.cluster"


def allocate_mbarriers(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Full and empty mbarriers for each ring.

    before::

        role compute: wait_full ring, k ... release ring, k
        role load:    elect { acquire ring, m  tma.load A_s[m % 4, 0, 0], A[row, m * 64] }

    after::

        mbarrier ring_full[4] arrivals 1
        mbarrier ring_empty[4] arrivals 8
        (init, fence, sync before the roles; sync, inval after them)
        role compute:
          elect { for i in 0 .. 4 unroll { mbarrier.arrive ring_empty[i] } }
          mbarrier.wait ring_full[k % 4], k // 4 % 2
          ...
          elect { mbarrier.arrive ring_empty[k % 4] }
        role load:
          elect {
            mbarrier.wait ring_empty[m % 4], m // 4 % 2
            mbarrier.expect_tx ring_full[m % 4]
            tma.load A_s[m % 4, 0, 0], A[row, m * 64], bar=ring_full[m % 4]
          }
    """
    names = Names(kernel)
    rings = [_Barriers.of(kernel, ring, names) for ring in kernel.rings]
    if not rings:
        return kernel
    init = (b.each(names, "init", b.initialised, b.full, b.empty) for b in rings)
    inval = (b.each(names, "inval", _invalidated, b.full, b.empty) for b in rings)
    begin = one_thread(*init, FenceMBarrierInit())
    end = one_thread(*inval)
    sync = ClusterSync() if any(b.peers or b.ctas > 1 for b in rings) else CtaSync()
    body: list[Stmt] = []
    for stmt in kernel.body:
        if isinstance(stmt, Roles):
            for b in rings:
                stmt = Roles(tuple(b.placed(r, names) for r in stmt.roles))
            body += [begin, sync, stmt, sync, end]
        else:
            body.append(stmt)
    arrays = (array for b in rings for array in (b.full, b.empty))
    return replace(kernel.undeclare(Ring).declare(*arrays), body=tuple(body))


@dataclass(frozen=True, slots=True)
class _Barriers:
    """A ring with its mbarriers; ``peers`` are ranks that multicast into its stages as we do into
    theirs, ``ctas`` the CTAs of the cluster that its first one fills it for.
    """

    ring: Ring
    ends: Ends
    full: MBarrierArray
    empty: MBarrierArray
    peers: tuple[Expr, ...]
    ctas: int

    @staticmethod
    def of(kernel: Kernel, ring: Ring, names: Names) -> _Barriers:
        """With as many arrivals as those who fill and read it make."""
        ends, peers = ends_of(kernel, ring), _peers(ring)
        ctas = kernel.cluster if ring.remote else 1
        full = MBarrierArray(names.new(f"{ring.name}_full"), ring.stages, ends.full)
        arrivals = ends.empty * (1 + len(peers)) * ctas
        empty = MBarrierArray(names.new(f"{ring.name}_empty"), ring.stages, arrivals)
        return _Barriers(ring, ends, full, empty, peers, ctas)

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

    def placed(self, role: Role, names: Names) -> Role:
        """A role with the ring's steps as operations on barriers, and the first arrivals."""
        body = role.body
        if consumes(body, self.ring.name):
            body = self.begun(body, frozenset(role.span), role, names)
        return replace(role, body=_Steps(self, role.name).placed(body, None))

    def begun(self, body: Body, warps: frozenset[int], role: Role, names: Names) -> Body:
        """``body`` with the first arrivals, in front of where the warps that read are alone."""
        reading = [s for s in body if consumes((s,), self.ring.name)]
        picked = [
            entering(s, warps, role) if isinstance(s, If) and not s.other else warps
            for s in reading
        ]
        if warps in picked:
            return (self.arrive_first(role, names), *body)
        return tuple(
            replace(s, then=self.begun(s.then, picked[reading.index(s)], role, names))
            if isinstance(s, If) and s in reading else s
            for s in body
        )  # fmt: skip

    def arrive_first(self, role: Role, names: Names) -> Stmt:
        """The arrivals of the first team, before any step has been read."""
        first: Stmt = Elect((self.each(names, "first", self.released, self.empty),))
        if self.ring.teams == 1 or role.group is None:
            return first
        groups = role.warps // 4 // self.ring.teams
        mine = role.group.eq(0) if groups == 1 else role.group < groups
        return If(mine, (first,))

    def released(self, bar: MBarrierRef) -> Body:
        """A stage is given back to all who fill it."""
        if self.ctas > 1:
            return (MBarrierArrive(bar, cta=ZERO, order="release.cluster"),)
        there = (MBarrierArrive(bar, cta=peer, order=RELAXED) for peer in self.peers)
        return (MBarrierArrive(bar), *there)


def _invalidated(bar: MBarrierRef) -> Body:
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
class _Steps:
    """The steps of a ring in one role, as operations on its barriers."""

    of: _Barriers
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
                        self.at(self.of.full, m), stores(ring, rest), copies(ring, rest)
                    )
                    out.append(self.wait(self.of.empty, m, self.empty_order))
                case Commit(ring=name, step=m, cta=cta) if name == ring.name and filling:
                    out += self.committed(replace(filling, bar=self.at(self.of.full, m)), cta, one)
                case WaitFull(ring=name, step=m) if name == ring.name:
                    out += self.waited(m)
                case Release(ring=name, step=m) if name == ring.name:
                    out += self.released(m)
                case TmaLoad() if announces(ring, stmt) and filling:
                    if announced != filling:
                        out.append(MBarrierExpectTx(filling.bar))
                    announced = filling
                    out.append(replace(stmt, bar=filling.bar))
                case _:
                    inside = partial(
                        self.placed, filling=filling, one=one or isinstance(stmt, Elect)
                    )
                    out.append(map_bodies(stmt, inside))
        return tuple(out)

    def at(self, array: MBarrierArray, m: Expr) -> MBarrierRef:
        return MBarrierRef(array.name, m % self.of.ring.stages)

    def wait(self, array: MBarrierArray, m: Expr, order: str) -> Stmt:
        return MBarrierWait(self.at(array, m), m // self.of.ring.stages % 2, order=order)

    @property
    def empty_order(self) -> str:
        return RELAXED if self.of.peers else self.full_order

    @property
    def full_order(self) -> str:
        return "acquire.cta" if self.of.ctas == 1 else "acquire.cluster"

    def committed(self, filling: _Filling, cta: Expr | None, one: bool) -> Body:
        """What threads have written is there: behind a fence for those who read asynchronously."""
        order = "release.cta" if cta is None else "release.cluster"
        arrive: Body = (MBarrierArrive(filling.bar, cta, order),)
        if not one:
            arrive = WarpSync(), Elect(arrive)
        if self.of.ends.reads(Memory.SHARED_ASYNC):
            arrive = FenceProxyAsync(), *arrive
        landed = (CpAsyncArrive(filling.bar),) if filling.copied else ()
        return (*(arrive if filling.stored else ()), *landed)

    def waited(self, m: Expr) -> Body:
        wait = self.wait(self.of.full, m, self.full_order)
        copied = any(f.copies for f in self.of.ends.fills)
        fenced = copied and self.of.ends.reads(Memory.SHARED_ASYNC, self.role)
        return (wait, FenceProxyAsync()) if fenced else (wait,)

    def released(self, m: Expr) -> Body:
        ends = self.of.ends
        head: Body = ()
        if ends.reads(Memory.SHARED, self.role):
            loaded = any(f.announcements for f in ends.fills)
            head = (FenceProxyAsync(), WarpSync()) if loaded else (WarpSync(),)
        return (*head, Elect(self.of.released(self.at(self.of.empty, m))))
