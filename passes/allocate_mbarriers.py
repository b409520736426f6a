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
from dataclasses import replace

from lowering.errors import InternalError
from lowering.ir.expr import ZERO, Expr, Special, Var
from lowering.ir.kernel import CircularBuffer, Kernel, MBarrierArray
from lowering.ir.nodes import (
    Acquire,
    Body,
    ClusterSync,
    CtaSync,
    Elect,
    FenceMBarrierInit,
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
)
from lowering.ir.visit import Names, map_bodies, walk
from lowering.options import LoweringOptions

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
    for ring in kernel.circular_buffers:
        kernel = _allocate(kernel, ring)
    return replace(kernel, circular_buffers=())


def _allocate(kernel: Kernel, ring: CircularBuffer) -> Kernel:
    names = Names(kernel)
    full = MBarrierArray(names.new(f"{ring.name}_full"), ring.stages, 1)
    peers = _peers(ring)
    arrivals = WARPS_PER_GROUP * ring.consumers * (1 + len(peers))
    empty = MBarrierArray(names.new(f"{ring.name}_empty"), ring.stages, arrivals)

    def each(
        name: str, make: Callable[[MBarrierArray, MBarrierRef], Body], *of: MBarrierArray
    ) -> For:
        index = Var(names.new(f"{ring.name}_{name}"))
        body = tuple(s for array in of for s in make(array, MBarrierRef(array.name, index)))
        return For(index, ZERO, ZERO + ring.stages, body, unroll=True)

    def role(r: Role) -> Role:
        body = _place(r.body, ring, full, empty, peers)
        if not _consumes(r.body, ring):
            return replace(r, body=body)
        first: Stmt = Elect((each("first", lambda _, bar: _arrive(bar, peers), empty),))
        if ring.consumers < ring.groups:
            if r.group is None:
                raise InternalError("allocate_mbarriers", f"role {r.name} has no group index")
            first = If(r.group.eq(0), (first,))
        return replace(r, body=(first, *body))

    init = each("init", lambda array, bar: (MBarrierInit(bar, array.arrivals),), full, empty)
    inval = each("inval", lambda _, bar: (MBarrierInval(bar),), full, empty)
    sync = ClusterSync() if ring.multicast else CtaSync()
    body: list[Stmt] = []
    for stmt in kernel.body:
        if isinstance(stmt, Roles):
            roles = Roles(tuple(role(r) for r in stmt.roles))
            body += [_one_thread(init, FenceMBarrierInit()), sync, roles]
            body += [sync, _one_thread(inval)]
        else:
            body.append(stmt)
    return replace(kernel, mbarriers=(*kernel.mbarriers, full, empty), body=tuple(body))


def _one_thread(*stmts: Stmt) -> Stmt:
    return If(Special("warp").eq(0), (Elect(stmts),))


def _consumes(body: Body, ring: CircularBuffer) -> bool:
    return any(isinstance(s, WaitFull) and s.ring == ring.name for s in walk(body))


def _peers(ring: CircularBuffer) -> tuple[Expr, ...]:
    """Ranks of the other CTAs that multicast into our stages, as we do into theirs."""
    rank = Special("cluster.ctarank")
    found: list[Expr] = []
    for count, stride in dict.fromkeys(ring.shares):
        mine = rank // stride % count
        for other in range(1, count):
            found.append(rank + ((mine + other) % count - mine) * stride)
    return tuple(found)


def _arrive(bar: MBarrierRef, peers: tuple[Expr, ...]) -> Body:
    return (MBarrierArrive(bar), *(MBarrierArrive(bar, cta=peer, order=RELAXED) for peer in peers))


def _place(
    body: Body,
    ring: CircularBuffer,
    full: MBarrierArray,
    empty: MBarrierArray,
    peers: tuple[Expr, ...],
) -> Body:
    """``body`` with the ring's steps replaced by operations on its barriers."""
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
                out.append(Elect(_arrive(MBarrierRef(empty.name, m % ring.stages), peers)))
            case TmaLoad(dst=dst) if dst.buffer in ring.buffers:
                out.append(replace(stmt, bar=filling))
            case _:
                out.append(map_bodies(stmt, lambda b: _place(b, ring, full, empty, peers)))
    return tuple(out)
