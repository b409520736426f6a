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

Where products read the stages, no thread sees them end: their commit tells all CTAs that load into
a stage which they have read. Where several CTAs have a part of a product (``cta_group``), a stage
of operands is full at the leader, which announces the bytes of all and waits for them; sums are
told of in all of them, and given back at the leader.

After ``synchronize_wgmma`` and ``queue_tiles``, before ``expect_tx`` (bytes) and ``step_stages``
(parity arithmetic).
"""

from __future__ import annotations

from lowering.ground.frozen import replaced
from lowering.kernel.kernel import Kernel, Ring
from lowering.kernel.nodes import (
    Body,
    ClusterSync,
    CtaSync,
    Elect,
    FenceMBarrierInit,
    If,
    OnWarp,
    Role,
    Roles,
    Stmt,
    one_thread,
)
from lowering.kernel.ring_ends import teams_of
from lowering.kernel.visit import Names, consumes
from passes.options import LoweringOptions
from passes.ring_barriers import Barriers, Steps

__all__ = ["allocate_mbarriers"]


def allocate_mbarriers(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Full and empty mbarriers for each ring.

    before::

        role compute: wait_full ring, k ... release ring, k
        role load:    elect { acquire ring, m  tma.load A_s[stage(m, 4), 0, 0], A[row, m * 64] }

    after::

        mbarrier ring_full[4] arrivals 1
        mbarrier ring_empty[4] arrivals 8
        (init, fence, sync before the roles; sync, inval after them)
        role compute:
          elect { for i in 0 .. 4 unroll { mbarrier.arrive ring_empty[i] } }
          mbarrier.wait ring_full[stage(k, 4)], parity(k, 4)
          ...
          elect { mbarrier.arrive ring_empty[stage(k, 4)] }
        role load:
          elect {
            mbarrier.wait ring_empty[stage(m, 4)], parity(m, 4)
            mbarrier.expect_tx ring_full[stage(m, 4)]
            tma.load A_s[stage(m, 4), 0, 0], A[row, m * 64], bar=ring_full[stage(m, 4)]
          }
    """
    names = Names(kernel)
    rings = [Barriers.of(kernel, ring, names) for ring in kernel.rings]
    if not rings:
        return kernel
    init = (b.each(names, "init", b.initialised, b.full, b.empty) for b in rings)
    inval = (b.each(names, "inval", b.invalidated, b.full, b.empty) for b in rings)
    begin = one_thread(*init, FenceMBarrierInit())
    end = one_thread(*inval)
    sync = ClusterSync() if any(b.in_cluster for b in rings) else CtaSync()
    body: list[Stmt] = []
    for stmt in kernel.body:
        if isinstance(stmt, Roles):
            for b in rings:
                stmt = Roles(tuple(_placed(b, r, names) for r in stmt.roles))
            body += [begin, sync, stmt, sync, end]
        else:
            body.append(stmt)
    arrays = (array for b in rings for array in (b.full, b.empty))
    return replaced(kernel.undeclare(Ring).declare(*arrays), body=tuple(body))


def _placed(barriers: Barriers, role: Role, names: Names) -> Role:
    """A role with the ring's steps as operations on barriers, and the first arrivals."""
    body = role.body
    if consumes(body, barriers.ring.name):
        body = _begun(barriers, body, frozenset(role.span), role, names)
    return replaced(role, body=Steps(barriers, role.name).placed(body, None))


def _begun(barriers: Barriers, body: Body, warps: frozenset[int], role: Role, names: Names) -> Body:
    """``body`` with the first arrivals, in front of where the warps that read are alone."""
    reading = [s for s in body if consumes((s,), barriers.ring.name)]
    alone = [s for s in reading if isinstance(s, OnWarp) and not all(map(s.runs, warps))]
    if alone != reading:
        return (*_arrive_first(barriers, role, names, warps), *body)
    return tuple(
        replaced(s, body=_begun(barriers, s.body, frozenset(filter(s.runs, warps)), role, names))
        if isinstance(s, OnWarp) and s in alone else s
        for s in body
    )  # fmt: skip


def _arrive_first(barriers: Barriers, role: Role, names: Names, warps: frozenset[int]) -> Body:
    """The arrivals of the first team, before any step has been read, where ``warps`` are: by those
    of them that read.
    """
    first: Stmt = Elect((barriers.each(names, "first", barriers.released, barriers.empty),))
    reading = frozenset(w for r in barriers.ends.readers[role.name] for w in r.warps) & warps
    teams = teams_of(barriers.ring, role)
    if reading < warps:
        return tuple(OnWarp(warp, (first,)) for warp in sorted(reading))
    if role.group is None or teams == 1:
        return (first,)
    groups = role.warps // 4 // teams
    mine = role.group.eq(0) if groups == 1 else role.group < groups
    return (If(mine, (first,)),)
