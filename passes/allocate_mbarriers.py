"""Realise the steps of circular buffers with full and empty mbarriers.

Requires: ``acquire``/``wait_full``/``release`` inside roles; releases wait-covered
(``synchronize_wgmma``).
Guarantees: two mbarrier arrays per circular buffer, initialised by one thread before the roles
begin and made visible to every thread and to the async proxy; invalidated after all roles ended.

*Full* of a stage: one arrival, by the load thread's ``expect_tx``, plus the bytes. Waited for with
parity ``(m / stages) & 1``.
*Empty* of a stage: one arrival per warp of every warpgroup that consumes the stage, made by one
elected thread after that warp's ``wgmma.wait``. The consumers arrive once on every stage before
their first step, as the proposal does, so that the load side waits with the same parity as the
consumers. In ping-pong a step has one consuming group, so only group 0 makes those first arrivals,
whether it has a tile or not.

What ``ld.shared`` or ``ldmatrix`` read is released behind ``fence.proxy.async`` by every thread and
a ``warp.sync``: the arrival of one thread alone orders neither the other threads' reads nor reads
against the next copy, which goes through another proxy.

In a cluster whose CTAs fill each other's stages, a stage may be filled only when all its readers in
all CTAs have released it: each release arrives at the empty barrier of every CTA that multicasts to
ours, our own included. These arrivals and their waits are relaxed: what they order are reads by
wgmma, which ``wgmma.wait`` has completed, and copies that the load thread issues after its wait; no
ordinary memory access is published. The init is then followed by a cluster-wide sync, and
so is the end of the roles, because a peer may still signal a CTA that has nothing left to do.

After ``synchronize_wgmma``, before ``expect_tx`` (bytes) and ``step_stages`` (parity arithmetic).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Expr, Special, Var
from lowering.kernel.kernel import CircularBuffer, Kernel, MBarrierArray
from lowering.kernel.nodes import (
    Acquire,
    Body,
    ClusterSync,
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
from lowering.kernel.operands import SmemRef
from lowering.kernel.traits import Memory
from lowering.kernel.visit import Names, consumes, map_bodies, operands, walk
from passes.options import LoweringOptions

__all__ = ["allocate_mbarriers"]

WARPS_PER_GROUP = 4
RELAXED = "relaxed.cluster"


def allocate_mbarriers(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Full and empty mbarriers for each circular buffer.

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
    read = {
        ref.buffer
        for s in walk(kernel.body)
        for ref in operands(s)
        if isinstance(ref, SmemRef) and Memory.SHARED in s.TRAITS.reads
    }
    rings = [_Barriers.of(ring, names, read) for ring in kernel.circular_buffers]
    if not rings:
        return kernel
    init = (b.each(names, "init", b.initialised, b.full, b.empty) for b in rings)
    inval = (b.each(names, "inval", _invalidated, b.full, b.empty) for b in rings)
    begin = one_thread(*init, FenceMBarrierInit())
    end = one_thread(*inval)
    sync = ClusterSync() if any(b.ring.multicast for b in rings) else CtaSync()
    body: list[Stmt] = []
    for stmt in kernel.body:
        if isinstance(stmt, Roles):
            for b in rings:
                stmt = Roles(tuple(b.placed(r, names) for r in stmt.roles))
            body += [begin, sync, stmt, sync, end]
        else:
            body.append(stmt)
    arrays = (array for b in rings for array in (b.full, b.empty))
    return replace(kernel.undeclare(CircularBuffer).declare(*arrays), body=tuple(body))


@dataclass(frozen=True, slots=True)
class _Barriers:
    """A circular buffer with its mbarriers; ``peers`` are ranks that multicast into its stages,
    ``release`` is what stands in front of the arrivals that release one.
    """

    ring: CircularBuffer
    full: MBarrierArray
    empty: MBarrierArray
    peers: tuple[Expr, ...]
    release: Body

    @staticmethod
    def of(ring: CircularBuffer, names: Names, read: set[str]) -> _Barriers:
        """``read`` are the buffers that threads read themselves."""
        peers = _peers(ring)
        full = MBarrierArray(names.new(f"{ring.name}_full"), ring.stages, 1)
        arrivals = WARPS_PER_GROUP * ring.consumers * (1 + len(peers))
        empty = MBarrierArray(names.new(f"{ring.name}_empty"), ring.stages, arrivals)
        release = (FenceProxyAsync(), WarpSync()) if read & set(ring.buffers) else ()
        return _Barriers(ring, full, empty, peers, release)

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
        body = _place(role.body, self)
        if not consumes(role.body, self.ring.name):
            return replace(role, body=body)
        arrive = self.each(names, "first", lambda bar: _arrive(bar, self.peers), self.empty)
        first: Stmt = Elect((arrive,))
        if self.ring.consumers < self.ring.groups:
            if role.group is None:
                raise InternalError("allocate_mbarriers", f"role {role.name} has no group index")
            first = If(role.group.eq(0), (first,))
        return replace(role, body=(first, *body))


def _invalidated(bar: MBarrierRef) -> Body:
    return (MBarrierInval(bar),)


def _peers(ring: CircularBuffer) -> tuple[Expr, ...]:
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


def _arrive(bar: MBarrierRef, peers: tuple[Expr, ...]) -> Body:
    return (MBarrierArrive(bar), *(MBarrierArrive(bar, cta=peer, order=RELAXED) for peer in peers))


def _place(body: Body, barriers: _Barriers) -> Body:
    """``body`` with the ring's steps replaced by operations on its barriers."""
    ring, full, empty = barriers.ring, barriers.full, barriers.empty
    out: list[Stmt] = []
    filling: MBarrierRef | None = None
    order = RELAXED if ring.multicast else "acquire.cta"
    for stmt in body:
        match stmt:
            case Acquire(ring=name, step=m) if name == ring.name:
                filling = MBarrierRef(full.name, m % ring.stages)
                free = MBarrierRef(empty.name, m % ring.stages)
                out.append(MBarrierWait(free, m // ring.stages % 2, order=order))
                out.append(MBarrierExpectTx(filling))
            case WaitFull(ring=name, step=m) if name == ring.name:
                at = MBarrierRef(full.name, m % ring.stages)
                out.append(MBarrierWait(at, m // ring.stages % 2))
            case Release(ring=name, step=m) if name == ring.name:
                freed = MBarrierRef(empty.name, m % ring.stages)
                out += [*barriers.release, Elect(_arrive(freed, barriers.peers))]
            case TmaLoad(dst=dst) if dst.buffer in ring.buffers:
                out.append(replace(stmt, bar=filling))
            case _:
                out.append(map_bodies(stmt, lambda b: _place(b, barriers)))
    return tuple(out)
