"""The machine: a kernel executed on the CPU, byte for byte, one cluster after the other."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lowering.ground.errors import InternalError, UnsupportedError, WschedError
from lowering.ground.progress import doing
from lowering.kernel import nodes
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Stmt
from lowering.machine import (
    atomics,
    compute,
    control,
    copy_tile,
    cp_async,
    descriptors,
    global_memory,
    partials,
    pointwise,
    printing,
    queue,
    random,
    reduction,
    remote,
    scalar_memory,
    shuffle,
    stamp,
    synchronize,
    tensor_memory,
    transfer,
)
from lowering.machine import (
    watch as watching,
)
from lowering.machine.adversary import Adversary, late
from lowering.machine.clock import Clock, Costs, Stretch, timed
from lowering.machine.errors import DeadlockError
from lowering.machine.estimate import estimate_seconds
from lowering.machine.fragment import Array
from lowering.machine.launch import Launch, described
from lowering.machine.memory import check_storage
from lowering.machine.program import Handler, Program, execute
from lowering.machine.scheduler import Blocked, Scheduler, Watch
from lowering.machine.state import Cluster, Warp
from lowering.machine.trace import TraceRow, one_warp_each
from lowering.machine.workspace import Counters

__all__ = ["HANDLERS", "RunResult", "refuse_long_run", "run_kernel"]

HANDLERS: dict[type[Stmt], Handler] = {
    nodes.Let: control.let,
    nodes.GroupPart: control.part,
    nodes.For: control.for_,
    nodes.If: control.if_,
    nodes.OnWarp: control.on_warp,
    nodes.Elect: control.elect,
    nodes.Roles: control.roles,
    nodes.SetMaxNReg: control.setmaxnreg,
    nodes.Tcgen05Mma: tensor_memory.tcgen05_mma,
    nodes.Tcgen05Commit: tensor_memory.tcgen05_commit,
    nodes.Tcgen05Load: tensor_memory.tcgen05_load,
    nodes.Tcgen05WaitLoad: tensor_memory.tcgen05_wait_load,
    nodes.Tcgen05Fence: tensor_memory.tcgen05_fence,
    nodes.Tcgen05Alloc: tensor_memory.tcgen05_alloc,
    nodes.Tcgen05Relinquish: tensor_memory.tcgen05_relinquish,
    nodes.Tcgen05Base: tensor_memory.tcgen05_base,
    nodes.Tcgen05Dealloc: tensor_memory.tcgen05_dealloc,
    nodes.MBarrierInit: synchronize.mbarrier_init,
    nodes.MBarrierInval: synchronize.mbarrier_inval,
    nodes.MBarrierArrive: synchronize.mbarrier_arrive,
    nodes.MBarrierExpectTx: synchronize.mbarrier_expect_tx,
    nodes.MBarrierWait: synchronize.mbarrier_wait,
    nodes.FenceMBarrierInit: synchronize.fence_mbarrier_init,
    nodes.FenceProxyAsync: synchronize.fence_proxy_async,
    nodes.WarpSync: synchronize.warp_sync,
    nodes.BarSync: synchronize.bar_sync,
    nodes.BarArrive: synchronize.bar_arrive,
    nodes.CtaNumber: synchronize.cta_number,
    nodes.CtaSync: synchronize.cta_sync,
    nodes.ClusterSync: synchronize.cluster_sync,
    nodes.GridDepWait: synchronize.griddep_wait,
    nodes.GridDepLaunchDependents: synchronize.griddep_launch_dependents,
    nodes.Atom: atomics.atom,
    nodes.CounterWait: atomics.counter_wait,
    nodes.PrefetchTensorMap: transfer.prefetch_tensormap,
    nodes.TmaLoad: transfer.tma_load,
    nodes.TmaPrefetch: transfer.tma_prefetch,
    nodes.TmaStore: transfer.tma_store,
    nodes.BulkCommit: transfer.bulk_commit,
    nodes.BulkWait: transfer.bulk_wait,
    nodes.StMatrix: transfer.stmatrix,
    nodes.StShared: transfer.stshared,
    nodes.LdMatrix: transfer.ldmatrix,
    nodes.LdShared: transfer.ldshared,
    nodes.StAsync: remote.st_async,
    nodes.BulkCopy: remote.bulk_copy,
    nodes.StWord: queue.st_word,
    nodes.LdWord: queue.ld_word,
    nodes.CopyTile: copy_tile.copy_tile,
    nodes.CpAsync: cp_async.cp_async,
    nodes.CpAsyncArrive: cp_async.cp_async_arrive,
    nodes.FenceTensormapAcquire: descriptors.fence_tensormap_acquire,
    nodes.FenceTensormapRelease: descriptors.fence_tensormap_release,
    nodes.TensormapReplaceAddress: descriptors.tensormap_replace_address,
    nodes.TensormapReplaceDim: descriptors.tensormap_replace_dim,
    nodes.LdGlobalScalar: scalar_memory.ld_global_scalar,
    nodes.StGlobalScalar: scalar_memory.st_global_scalar,
    nodes.Stamp: stamp.stamp,
    nodes.Print: printing.print_line,
    nodes.FragPrint: printing.frag_print,
    nodes.FragLoadGlobal: global_memory.frag_load_global,
    nodes.FragStoreGlobal: global_memory.frag_store_global,
    nodes.FragStorePartial: partials.frag_store_partial,
    nodes.FragAddPartial: partials.frag_add_partial,
    nodes.FragRandom: random.frag_random,
    nodes.FragShuffle: shuffle.frag_shuffle,
    nodes.FragRedGlobal: global_memory.frag_red_global,
    nodes.FragReduce: reduction.frag_reduce,
    nodes.FragReduceToShared: reduction.frag_reduce_to_shared,
    nodes.FragReduceFromShared: reduction.frag_reduce_from_shared,
    nodes.FragStoreReduced: reduction.frag_store_reduced,
    nodes.FragBelow: reduction.frag_below,
    nodes.FragPointwise: pointwise.frag_pointwise,
    nodes.FragUpdate: pointwise.frag_update,
    nodes.FragFill: compute.frag_fill,
    nodes.FragCast: compute.frag_cast,
    nodes.FragColumns: compute.frag_columns,
    nodes.FragRows: compute.frag_rows,
    nodes.Wgmma: compute.wgmma,
    nodes.WgmmaFence: compute.wgmma_fence,
    nodes.WgmmaCommit: compute.wgmma_commit,
    nodes.WgmmaWait: compute.wgmma_wait,
}

Watcher = Callable[[Sequence[Cluster]], Watch | None]

LIMIT = "WSCHED_MACHINE_SECONDS"
"""Environment variable: the longest run, in seconds by the estimate."""

STEP_LIMIT = 20_000_000
"""Steps of a cluster, about a minute, after which a loop counts as endless."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What happened in a run.

    Args:
        counts: how often each kind of event happened, by the statement's name (a wgmma once for
            the four warps); also ``steps``, ``load bytes`` and ``store bytes``.
        trace: all events, those of a warp in program order; empty if the run was not traced.
        stretches: by the clock, what warps did when, since their batch of clusters began.
        cycles: by the clock, until all was over, batch after batch.
        printed: lines that the kernel has printed.
    """

    counts: Mapping[str, int]
    trace: tuple[TraceRow, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    cycles: float = 0.0
    printed: tuple[str, ...] = ()

    def visits(self, *events: tuple[str, str]) -> tuple[TraceRow, ...]:
        """Events of some kinds, each ``(op, target)``, of one warp of each warpgroup."""
        return one_warp_each(r for r in self.trace if (r.op, r.target) in events)


def run_kernel(
    kernel: Kernel,
    tensors: Mapping[str, Array],
    params: Mapping[str, int],
    grid: int,
    *,
    seed: int = 0,
    adversary: Adversary | Costs = "random",
    trace: bool = False,
    limit_seconds: float | None = None,
    resident: int | None = None,
    order: Sequence[int] | None = None,
    watch: Watcher | None = None,
    first_only: bool = False,
    races: bool = False,
    step_limit: int | None = None,
) -> RunResult:
    """Execute ``kernel``, after all passes; output tensors are written in place.

    Args:
        kernel: what to run.
        tensors: an array for each tensor map (of an array of maps for each entry, ``NAME[i]``) and
            plain tensor, of its rank, all dimensions but the last may be strided: elements, or
            their raw bits as unsigned integers. For each trace buffer, and for a watch, int64
            zeros of its shape; for counters, if given, int32 zeros.
        params: a value for each scalar parameter.
        grid: number of CTAs along x; the kernel says how many there are along y and z. CTAs of
            different clusters run one after the other, but all at once where they share counters.
        seed: of the adversary's choices.
        adversary: who runs, what takes effect when (``Scheduler``); or what all takes (``Clock``).
        trace: whether to note every event.
        limit_seconds: refuse a run that is estimated longer; ``WSCHED_MACHINE_SECONDS``, or 60.
        resident: clusters at once, by the clock on the SMs of one; shows waits for who comes later.
        order: numbers of clusters as they start; by default theirs, which no GPU promises.
        watch: who looks on when these clusters run together; None nobody.
        races: whether accesses to shared memory that nothing orders are a fault, in any order.
        step_limit: after so many steps a loop counts as endless; by default ``STEP_LIMIT``.
        first_only: run only the clusters that run together first; results are then not whole.

    Raises:
        UnsupportedError: too large a problem, or a tensor that cannot be addressed as declared.
        InternalError: a kernel that is not fully lowered, or a parameter without a value.
        DeadlockError: warps wait for ever; the text names each and what it waits for.
        MachineError: a statement did what the hardware forbids or leaves undefined.
    """
    _check(kernel, tensors, params, grid)
    program, ctas = _program(kernel, adversary), kernel.ctas(grid, params)
    together = _together(kernel, ctas, resident)
    refuse_long_run(kernel, params, grid, limit_seconds, together / ctas if first_only else 1.0)
    launch, counts = Launch.of(kernel, tensors, params, grid, ctas, trace, races), Counter[str]()
    first = [kernel.cluster * n for n in order or range(ctas // kernel.cluster)]
    used, end = list[Scheduler](), together if first_only else ctas
    with doing(lambda: _far(used, together, end)):
        for start in range(0, end, together):
            used.append(_scheduler(adversary, f"{seed}/{start}", step_limit, resident))
            chosen = first[start // kernel.cluster : (start + together) // kernel.cluster]
            clusters = launch.clusters(chosen, used[-1])
            counts += _run_together(used[-1], clusters, program, watch)
    _check_left(kernel, launch.counters)
    return RunResult(counts, tuple(launch.rows or ()), *_noted(used))


def _far(used: Sequence[Scheduler], together: int, ctas: int) -> str:
    """How far a run of so many CTAs is."""
    steps = sum(s.steps for s in used)
    at = min(max(len(used), 1) * together, ctas)
    return f"the machine runs CTA {at} of {ctas}, {steps:,} steps"


def _noted(
    schedulers: Sequence[Scheduler],
) -> tuple[tuple[Stretch, ...], float, tuple[str, ...]]:
    """What they have: stretches and cycles of clocks, lines."""
    clocks = [s for s in schedulers if isinstance(s, Clock)]
    stretches = tuple(s for c in clocks for s in c.stretches)
    lines = tuple(line for s in schedulers for line in s.printed)
    return stretches, sum(c.end for c in clocks), lines


def _program(kernel: Kernel, adversary: Adversary | Costs) -> Program:
    """The kernel as code, some statements held back or all of them with what they take."""
    if isinstance(adversary, Costs):
        return Program(kernel, timed(HANDLERS, adversary))
    return Program(kernel, HANDLERS, partial(late, adversary))


def _scheduler(
    adversary: Adversary | Costs, seed: str, step_limit: int | None, resident: int | None
) -> Scheduler:
    step_limit = step_limit or STEP_LIMIT
    if isinstance(adversary, Costs):
        return Clock(adversary, step_limit, apart=resident is None)
    return Scheduler(adversary, seed, step_limit)


def _check_left(kernel: Kernel, counters: Mapping[str, Counters]) -> None:
    """Raise MachineError unless the grid leaves zeros."""
    for each in counters.values():
        each.check_left(kernel.name)


def _run_together(
    scheduler: Scheduler, clusters: Sequence[Cluster], program: Program, watch: Watcher | None
) -> Counter[str]:
    """Run clusters to their end, and count what happened."""
    scheduler.watch = None if watch is None else watch(clusters)
    try:
        with np.errstate(all="ignore"):
            scheduler.run([w for c in clusters for w in c.warps], lambda w: _whole(w, program))
    except DeadlockError:
        watching.write_waits(program.kernel, clusters)
        raise
    counts: Counter[str] = Counter({"steps": scheduler.steps})
    for cluster in clusters:
        counts += cluster.counts
    return counts


def _together(kernel: Kernel, ctas: int, resident: int | None) -> int:
    """How many CTAs run at once."""
    if resident is not None:
        return resident * kernel.cluster
    return ctas if kernel.counters else kernel.cluster


def _check(
    kernel: Kernel, tensors: Mapping[str, Array], params: Mapping[str, int], grid: int
) -> None:
    """Raise InternalError where an argument is missing, or the grid is not of whole clusters, and
    MachineError where buffers share a byte.
    """
    missing = [p.name for p in kernel.params if p.name not in params]
    declared = [e.name for g in kernel.globals for e in g.entries]
    declared += [t.name for t in kernel.traces]
    declared += [kernel.watch.name] if kernel.watch is not None else []
    if not missing:
        declared = [*(name for _, name, _ in described(kernel, params)), *declared]
    missing += [name for name in declared if name not in tensors]
    if missing:
        raise InternalError("machine", f"no value for {', '.join(missing)}")
    if grid < 1 or grid % kernel.cluster:
        raise InternalError("machine", f"a grid of {grid} CTAs in clusters of {kernel.cluster}")
    check_storage(kernel)


def _whole(warp: Warp, program: Program) -> Iterator[Blocked | None]:
    yield from execute(warp, program.code)
    warp.stmt = None
    warp.finish()


def refuse_long_run(
    kernel: Kernel,
    params: Mapping[str, int],
    grid: int,
    limit_seconds: float | None = None,
    share: float = 1.0,
) -> None:
    """Refuse what ``run_kernel`` with these arguments refuses for the time that it would take.

    ``share`` is the part of the CTAs that are run.

    Raises:
        UnsupportedError: the estimate is over the limit; the text has both.
        WschedError: the environment's limit is no number of seconds.
    """
    limit = _limit_from_environment() if limit_seconds is None else limit_seconds
    seconds = share * estimate_seconds(kernel, params, grid)
    if seconds > limit:
        raise UnsupportedError(
            f"a run of {kernel.name} on the machine that takes about {_seconds(seconds)}",
            f"runs of up to {_seconds(limit)}",
            f"Take a smaller problem, or raise the limit: limit_seconds or {LIMIT}",
        )


def _seconds(time: float) -> str:
    """A time for people: whole hours or seconds, two digits of shorter ones."""
    if time >= 7200:
        return f"{time / 3600:.0f} h"
    return f"{time:.0f} s" if time >= 10 or time == 0 else f"{time:.2g} s"


def _limit_from_environment() -> float:
    """Seconds of :data:`LIMIT`; 60 where it is unset or empty."""
    setting = os.environ.get(LIMIT, "").strip() or "60"
    try:
        seconds = float(setting)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise WschedError(
            f"{LIMIT}={setting}: use a number of seconds, 0 or more, for example 60 or 0.5"
        )
    return seconds
