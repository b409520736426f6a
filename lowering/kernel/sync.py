"""What orders roles and proxies: mbarriers, named barriers, fences. Steps of rings: ``ring``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr
from lowering.ground.frozen import quick
from lowering.kernel.operands import MBarrierRef, NamedBarrierRef, Stmt
from lowering.kernel.traits import Threads, Traits

__all__ = [
    "BarArrive",
    "BarSync",
    "ClusterSync",
    "CtaNumber",
    "CtaSync",
    "FenceMBarrierInit",
    "FenceProxyAsync",
    "GridDepLaunchDependents",
    "GridDepWait",
    "MBarrierArrive",
    "MBarrierExpectTx",
    "MBarrierInit",
    "MBarrierInval",
    "MBarrierWait",
    "WarpSync",
]

_BY_ONE = Traits(threads=Threads.ONE, synchronizes=True, since="allocate_mbarriers")
_BY_EACH = Traits(synchronizes=True, since="allocate_mbarriers")
_BY_WARPS = Traits(threads=Threads.WARP, synchronizes=True, since="allocate_mbarriers")
_NAMED = Traits(threads=Threads.WARP, synchronizes=True, since="order_pingpong")
_MEETING = Traits(threads=Threads.WARP, synchronizes=True, since="share_slices")


@dataclass(frozen=True, slots=True)
class MBarrierInit(Stmt):
    """``mbarrier.init``: one thread, before any use; phase 0 begins and awaits ``arrivals``."""

    OP: ClassVar[str] = "mbarrier.init"
    TRAITS: ClassVar[Traits] = _BY_ONE
    bar: MBarrierRef
    arrivals: int


@quick
@dataclass(frozen=True, slots=True)
class MBarrierArrive(Stmt):
    """``mbarrier.arrive``: one arrival by each executing thread (so usually in ``elect``).

    With ``cta`` the barrier of that CTA of the cluster is arrived at (``mapa``). ``order`` is PTX's
    semantics and scope: ``release.cta`` (only at a barrier of our own CTA), ``release.cluster``, or
    ``relaxed.cluster`` where nothing but completed asynchronous reads is announced; a release at
    cluster scope costs a fence of all of the thread's memory operations.
    """

    OP: ClassVar[str] = "mbarrier.arrive"
    TRAITS: ClassVar[Traits] = _BY_EACH
    bar: MBarrierRef
    cta: Expr | None = None
    order: str = "release.cta"


@dataclass(frozen=True, slots=True)
class MBarrierExpectTx(Stmt):
    """``mbarrier.arrive.expect_tx``: one arrival, and ``bytes`` more must land before the phase
    can complete: all that TMA writes into *this* CTA for the phase, out-of-bounds boxes in full
    (of a clipped tensor map: as many rows as its box has at run time).

    ``bytes`` is None until the pass ``expect_tx``.
    """

    OP: ClassVar[str] = "mbarrier.expect_tx"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.ONE,
        synchronizes=True,
        since="allocate_mbarriers",
        filled=(("bytes", "expect_tx"),),
    )
    bar: MBarrierRef
    bytes: Expr | None = None


@quick
@dataclass(frozen=True, slots=True)
class MBarrierWait(Stmt):
    """``mbarrier.try_wait.parity`` until the phase of that parity has completed.

    Parity ``p`` is satisfied while the current phase's parity is ``p ^ 1``. Phase 0 has parity 0.
    Every executing thread waits. ``order`` is PTX's semantics and scope: ``acquire.cta``, or, where
    peers arrive, ``acquire.cluster`` (which invalidates the L1) or ``relaxed.cluster``.
    """

    OP: ClassVar[str] = "mbarrier.wait"
    TRAITS: ClassVar[Traits] = _BY_EACH
    bar: MBarrierRef
    parity: Expr
    order: str = "acquire.cta"


@dataclass(frozen=True, slots=True)
class MBarrierInval(Stmt):
    """``mbarrier.inval``: one thread, after all threads that used the barrier met in a sync."""

    OP: ClassVar[str] = "mbarrier.inval"
    TRAITS: ClassVar[Traits] = _BY_ONE
    bar: MBarrierRef


@dataclass(frozen=True, slots=True)
class FenceMBarrierInit(Stmt):
    """``fence.mbarrier_init.release.cluster``: makes the inits visible to the async proxy."""

    OP: ClassVar[str] = "fence.mbarrier_init"
    TRAITS: ClassVar[Traits] = _BY_EACH


@dataclass(frozen=True, slots=True)
class FenceProxyAsync(Stmt):
    """``fence.proxy.async.shared::cta``: the executing threads' generic-proxy writes to shared
    memory become visible to the async proxy (TMA, wgmma), and their reads stay in front of what it
    writes afterwards. Orders only the executing threads.
    """

    OP: ClassVar[str] = "fence.proxy.async"
    TRAITS: ClassVar[Traits] = _BY_EACH


@dataclass(frozen=True, slots=True)
class WarpSync(Stmt):
    """``bar.warp.sync``: what any thread of the warp did in memory comes before what any does
    afterwards; ``elect`` alone does not say so.
    """

    OP: ClassVar[str] = "warp.sync"
    TRAITS: ClassVar[Traits] = _BY_WARPS


@dataclass(frozen=True, slots=True)
class BarSync(Stmt):
    """``bar.sync id, threads``: arrive and wait until ``threads`` threads have arrived."""

    OP: ClassVar[str] = "bar.sync"
    TRAITS: ClassVar[Traits] = _MEETING
    bar: NamedBarrierRef


@dataclass(frozen=True, slots=True)
class BarArrive(Stmt):
    """``bar.arrive id, threads``: arrive without waiting."""

    OP: ClassVar[str] = "bar.arrive"
    TRAITS: ClassVar[Traits] = _NAMED
    bar: NamedBarrierRef


@dataclass(frozen=True, slots=True)
class CtaSync(Stmt):
    """``bar.sync 0``: every thread of the CTA."""

    OP: ClassVar[str] = "cta.sync"
    TRAITS: ClassVar[Traits] = _BY_WARPS


@dataclass(frozen=True, slots=True)
class ClusterSync(Stmt):
    """``barrier.cluster.arrive.release`` and ``.wait.acquire``: every thread of the cluster."""

    OP: ClassVar[str] = "cluster.sync"
    TRAITS: ClassVar[Traits] = _BY_WARPS


@dataclass(frozen=True, slots=True)
class CtaNumber(Stmt):
    """From here on ``%ctaid`` is the place of a CTA whose cluster has this number among those of
    the grid, x fastest, in place of the one that the launch gave it. Every thread executes it, once
    and on the outermost level; nobody reads ``%ctaid`` before.
    """

    OP: ClassVar[str] = "cta.number"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARP, since="number_ctas")
    number: Expr


@dataclass(frozen=True, slots=True)
class GridDepWait(Stmt):
    """``griddepcontrol.wait``: until all grids that this one was launched behind have completed and
    their memory operations are visible. Returns at once in a grid that was launched normally.
    """

    OP: ClassVar[str] = "griddepcontrol.wait"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARP,
        synchronizes=True,
        since="wait_for_earlier_grids",
    )


@dataclass(frozen=True, slots=True)
class GridDepLaunchDependents(Stmt):
    """``griddepcontrol.launch_dependents``: once every CTA of the grid has executed it or ended,
    the next grid may start, if it was launched dependently. What our grid has written by then is
    *not* visible to it; for that the next grid waits.
    """

    OP: ClassVar[str] = "griddepcontrol.launch_dependents"
    TRAITS: ClassVar[Traits] = Traits(synchronizes=True, since="wait_for_earlier_grids")
