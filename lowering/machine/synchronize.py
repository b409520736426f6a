"""mbarriers, named barriers and fences on the machine."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.errors import InternalError
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    ClusterSync,
    CtaNumber,
    CtaSync,
    FenceMBarrierInit,
    FenceProxyAsync,
    GridDepLaunchDependents,
    GridDepWait,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierInval,
    MBarrierWait,
    NamedBarrierRef,
    WarpSync,
)
from lowering.kernel.text import print_stmt
from lowering.machine.barriers import NamedBarrier
from lowering.machine.cluster import acquire, publish_known, release
from lowering.machine.errors import FaultError
from lowering.machine.program import Program, Run
from lowering.machine.scheduler import Blocked
from lowering.machine.state import Warp

__all__ = [
    "bar_arrive", "bar_sync", "cluster_sync", "cta_number", "cta_sync", "fence_mbarrier_init",
    "fence_proxy_async", "griddep_launch_dependents", "griddep_wait", "mbarrier_arrive",
    "mbarrier_expect_tx", "mbarrier_init", "mbarrier_inval", "mbarrier_wait", "warp_sync",
]  # fmt: skip


def mbarrier_init(stmt: MBarrierInit, program: Program) -> Run:
    """``mbarrier.init``, by one thread."""
    find = program.mbarrier(stmt.bar)
    declared = program.kernel.mbarrier(stmt.bar.array).arrivals

    def run(warp: Warp) -> None:
        bar, _ = find(warp.cta, warp.env)
        if not warp.elected:
            raise FaultError(f"{bar.name} is initialized by 32 threads, not by one")
        if stmt.arrivals != declared:
            raise FaultError(f"{bar.name} awaits {declared} arrivals, not {stmt.arrivals}")
        bar.init(stmt.arrivals, warp)

    return run


def mbarrier_inval(stmt: MBarrierInval, program: Program) -> Run:
    """``mbarrier.inval``, by one thread."""
    find = program.mbarrier(stmt.bar)

    def run(warp: Warp) -> None:
        bar, _ = find(warp.cta, warp.env)
        if not warp.elected:
            raise FaultError(f"{bar.name} is invalidated by 32 threads, not by one")
        bar.inval(warp)

    return run


def mbarrier_arrive(stmt: MBarrierArrive, program: Program) -> Run:
    """``mbarrier.arrive``, here or at a peer; each executing thread arrives."""
    find = program.mbarrier(stmt.bar)
    peer = None if stmt.cta is None else program.scalar(stmt.cta)

    def run(warp: Warp) -> None:
        cta = warp.cta
        if peer is not None:
            cta = cta.peer(peer(warp.env))
        bar, index = find(cta, warp.env)
        if cta is not warp.cta:
            cta.signalled(f"an arrival at {bar.name}")
            bar.check("arrived at by a peer", remote=True)
            bar.remote = True
        bar.use(warp, "arrived at")
        bar.release(release(warp, stmt.order))
        bar.arrive(warp.threads, warp.known.before(warp.elected), warp.scheduler)
        warp.record(stmt.OP, stmt.bar.array, index)

    return run


def mbarrier_expect_tx(stmt: MBarrierExpectTx, program: Program) -> Run:
    """``mbarrier.arrive.expect_tx``; each executing thread announces the bytes and arrives."""
    find = program.mbarrier(stmt.bar)
    if stmt.bytes is None:
        raise InternalError("machine", "expect_tx without bytes", print_stmt(stmt))
    announced = program.scalar(stmt.bytes)

    def run(warp: Warp) -> None:
        bar, _ = find(warp.cta, warp.env)
        bar.use(warp, "arrived at")
        bar.release(release(warp, "release.cta"))
        known = warp.known.before(warp.elected)
        bar.arrive(warp.threads, known, warp.scheduler, announced(warp.env) * warp.threads)

    return run


def mbarrier_wait(stmt: MBarrierWait, program: Program) -> Run:
    """``mbarrier.try_wait.parity`` until it succeeds."""
    find, parity = program.mbarrier(stmt.bar), program.scalar(stmt.parity)

    def run(warp: Warp) -> Iterator[Blocked | None]:
        bar, index = find(warp.cta, warp.env)
        wanted = parity(warp.env)
        warp.record(stmt.OP, stmt.bar.array, index, parity=wanted)
        yield None
        while not bar.passed(wanted):
            yield Blocked(bar, lambda: bar.text(wanted))
        if bar.remote and not stmt.order.endswith(".cluster"):
            raise FaultError(f"peers arrive at {bar.name}, but it is waited for with {stmt.order}")
        warp.unpublished += bar.handed.get(bar.phase - 1, ())
        bar.use(warp, "waited for")
        bar.seen(warp)
        acquire(warp, bar.told, stmt.order)

    return run


def fence_mbarrier_init(stmt: FenceMBarrierInit, program: Program) -> Run:
    """``fence.mbarrier_init``: the warp's inits become visible to TMA and peers."""

    def run(warp: Warp) -> None:
        for array in warp.cta.mbarriers.values():
            for bar in array:
                bar.fenced |= bar.initializer is warp

    return run


def fence_proxy_async(stmt: FenceProxyAsync, program: Program) -> Run:
    """``fence.proxy.async``: publishes the warp's generic writes; nothing overtakes its reads.

    In ``elect`` it covers one thread's accesses only; no kernel needs that, so it does nothing.
    """

    def run(warp: Warp) -> None:
        if not warp.elected:
            for words in warp.unpublished:
                warp.cta.memory.publish(words)
            warp.unpublished.clear()
            publish_known(warp)
            warp.fence_reads()

    return run


def warp_sync(stmt: WarpSync, program: Program) -> Run:
    """``bar.warp.sync``."""

    def run(warp: Warp) -> None:
        warp.order_reads()

    return run


def bar_sync(stmt: BarSync, program: Program) -> Run:
    """``bar.sync``."""
    named = _Named(stmt.bar, program)

    def run(warp: Warp) -> Iterator[Blocked | None]:
        return _meet(warp, named.find(warp), named.threads, warp.index)

    return run


def bar_arrive(stmt: BarArrive, program: Program) -> Run:
    """``bar.arrive``."""
    named = _Named(stmt.bar, program)

    def run(warp: Warp) -> None:
        warp.order_reads()
        named.find(warp).arrive(warp, named.threads, warp.index)

    return run


def cta_sync(stmt: CtaSync, program: Program) -> Run:
    """``bar.sync 0``."""
    threads = program.kernel.threads

    def run(warp: Warp) -> Iterator[Blocked | None]:
        return _meet(warp, warp.cta.named_barrier(0, stmt.OP, threads), threads, warp.index)

    return run


def cluster_sync(stmt: ClusterSync, program: Program) -> Run:
    """``barrier.cluster``."""

    def run(warp: Warp) -> Iterator[Blocked | None]:
        bar = warp.cta.cluster.barrier
        key = warp.cta.rank * program.kernel.threads + warp.index
        release(warp, "release.cluster")
        return _meet(warp, bar, bar.threads, key)

    return run


def cta_number(stmt: CtaNumber, program: Program) -> Run:
    """``cta.number``: the warp's ``%ctaid`` from here on; what is said of a CTA names its place."""
    number = program.scalar(stmt.number)

    def run(warp: Warp) -> None:
        cluster = warp.cta.cluster
        ctaid = number(warp.env) * len(cluster.ctas) + warp.cta.rank
        warp.env.update(cluster.place(ctaid))

    return run


def griddep_wait(stmt: GridDepWait, program: Program) -> Run:
    """``griddepcontrol.wait``: from here on the warp may touch global memory.

    The grids before this one are not simulated; who touches their memory too early is found by
    ``Warp.touches_global``.
    """

    def run(warp: Warp) -> None:
        warp.waited = warp.cta.waited = True

    return run


def griddep_launch_dependents(stmt: GridDepLaunchDependents, program: Program) -> Run:
    """``griddepcontrol.launch_dependents`` changes nothing for this grid. The next one takes what
    the grids before this one wrote for written.
    """

    def run(warp: Warp) -> None:
        if program.kernel.dependent and not warp.waited:
            raise FaultError(
                "griddepcontrol.launch_dependents before griddepcontrol.wait: the next grid may "
                "start while an earlier one writes"
            )

    return run


class _Named:
    """A named-barrier operand."""

    def __init__(self, ref: NamedBarrierRef, program: Program) -> None:
        self.array = program.kernel.named_barrier(ref.array)
        self.threads = self.array.threads
        self.limit = program.kernel.target.named_barriers
        self._index = program.scalar(ref.index)

    def find(self, warp: Warp) -> NamedBarrier:
        """The barrier of the warp's CTA."""
        i, name = self._index(warp.env), self.array.name
        if not 0 <= i < self.array.count:
            raise FaultError(f"{name}[{i}] lies outside {name}[{self.array.count}]")
        if self.array.base is None:
            raise FaultError(f"{name} has no hardware ids")
        hardware_id = self.array.base + i
        if not 0 <= hardware_id < self.limit:
            raise FaultError(f"{name}[{i}] has hardware id {hardware_id} of {self.limit}")
        return warp.cta.named_barrier(hardware_id, f"{name}[{i}]", self.threads)


def _meet(warp: Warp, bar: NamedBarrier, threads: int, key: int) -> Iterator[Blocked | None]:
    """Arrive and wait for the rest."""
    yield None
    warp.order_reads()
    generation = bar.arrive(warp, threads, key)
    while bar.generation == generation:
        yield Blocked(bar, bar.text)
    warp.known.learn(bar.known, False)
