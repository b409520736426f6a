"""The whole lowering from tile level to the final kernel: read :data:`PASSES` from top to bottom.

Every pass is a pure function ``pass(kernel, options) -> kernel`` in the file of its name. The loop
below runs them, verifies what comes out of the last (of each, when it is dumped or when something
is wrong), and dumps where ``WSCHED_DUMP`` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.stage import Stage
from lowering.kernel.text import print_kernel
from lowering.kernel.verify import verify
from lowering.target.blackwell import BLACKWELL
from lowering.target.hopper import HOPPER
from passes.allocate_mbarriers import allocate_mbarriers
from passes.allocate_named_barriers import allocate_named_barriers
from passes.allocate_shared import allocate_shared
from passes.allocate_tensor_memory import allocate_tensor_memory
from passes.chunk_epilogue import chunk_epilogue
from passes.circular_buffer import circular_buffer
from passes.clip_boxes import clip_boxes
from passes.defer_stores import defer_stores
from passes.divide_by_reciprocal import divide_by_reciprocal
from passes.dump import Dumper
from passes.expect_tx import expect_tx
from passes.interleave_loads import interleave_loads
from passes.load_invariants_first import load_invariants_first
from passes.load_scales_ahead import load_scales_ahead
from passes.load_vectors_first import load_vectors_first
from passes.number_ctas import number_ctas
from passes.options import LoweringOptions
from passes.order_pingpong import order_pingpong
from passes.order_promotions import order_promotions
from passes.pair_arithmetic import pair_arithmetic
from passes.prefetch_operands import prefetch_operands
from passes.prefetch_tensor_maps import prefetch_tensor_maps
from passes.promote_sums import promote_sums
from passes.queue_tiles import queue_tiles
from passes.reallocate_registers import reallocate_registers
from passes.reduce_across_warps import reduce_across_warps
from passes.reduce_behind_stores import reduce_behind_stores
from passes.reduce_lanes_last import reduce_lanes_last
from passes.reshape_pointwise import reshape_pointwise
from passes.reuse_stages import reuse_stages
from passes.scale_unpacked import scale_unpacked
from passes.set_cache_policies import set_cache_policies
from passes.set_l2_promotions import set_l2_promotions
from passes.share_slices import share_slices
from passes.simplify import simplify
from passes.step_stages import step_stages
from passes.sum_products import sum_products
from passes.swizzle_shared import swizzle_shared
from passes.synchronize_partials import synchronize_partials
from passes.synchronize_tcgen05 import synchronize_tcgen05
from passes.synchronize_wgmma import synchronize_wgmma
from passes.trace import trace
from passes.wait_for_earlier_grids import wait_for_earlier_grids
from passes.warp_specialize import warp_specialize
from passes.watch_waits import watch_waits

__all__ = ["FINAL", "PASSES", "PIPELINES", "Step", "passes_of", "run_passes", "steps"]

Pass = Callable[[Kernel, LoweringOptions], Kernel]

PASSES: tuple[Pass, ...] = (
    share_slices,  # several warpgroups for one that multiplies, where that is asked for
    warp_specialize,  # sections become roles: everything later asks "which role?"
    interleave_loads,  # or, without warp specialization, one role that loads ahead of itself
    swizzle_shared,  # operand layouts, and TMA boxes that fit them
    clip_boxes,  # no box with more rows than its tensor, where nothing needs the zeros
    circular_buffer,  # stages, and acquire / wait / release around each load step
    load_invariants_first,  # what a computed operand takes for its rows, in front of the k loop
    promote_sums,  # of types that wgmma adds with few bits, to a second accumulator
    pair_arithmetic,  # two elements of 16 bits at once, where fp32 gives the same bits
    scale_unpacked,  # integers of 4 bits, smaller and in fewer instructions
    load_scales_ahead,  # numbers inside sums, while the step before multiplies
    synchronize_wgmma,  # asynchronous groups; releases move behind the waits that cover them
    order_pingpong,  # turns on the tensor core, around whole main loops
    order_promotions,  # and around groups of wgmmas, where what they sum is added meanwhile
    synchronize_partials,  # counters and barriers around parts of tiles, where CTAs share one
    queue_tiles,  # where tiles are handed out at run time: a counter, and steps of the queue
    allocate_mbarriers,  # full and empty barriers for the steps of all rings, init and teardown
    expect_tx,  # bytes of each phase, from the copies that now name their barrier
    chunk_epilogue,  # stmatrix and TMA stores through buffers of the epilogue's own
    reuse_stages,  # which lie where the operands' stages were, where that is asked for
    load_vectors_first,  # scales and biases once for all chunks, where registers hold them
    sum_products,  # of two fragments, an fma for each element
    reduce_across_warps,  # rows of a tile, from warp to warp through shared memory
    reduce_lanes_last,  # columns of a tile, the lanes of a row once behind the loop over chunks
    reduce_behind_stores,  # chunks, each behind the store of one
    defer_stores,  # to the main loop of the next tile, where that is asked for
    trace,  # stamps around turns, main loops and epilogues, where a trace is asked for
    watch_waits,  # a bound on every wait, where one is asked for
    step_stages,  # stage and parity carried instead of divided
    divide_by_reciprocal,  # the divisions by run-time extents that are still in a loop
    reallocate_registers,  # setmaxnreg, budget checked
    set_cache_policies,  # what the L2 keeps, of the copies that the schedule names
    set_l2_promotions,  # what the L2 fetches at once, of the tensors that the schedule names
    prefetch_tensor_maps,  # descriptors fetched before the first copy needs them
    prefetch_operands,  # hints of the first boxes, where they are asked for
    wait_for_earlier_grids,  # may start before the grid in front ends; waits before global memory
    number_ctas,  # CTAs that wait for each other take numbers as they start
    allocate_named_barriers,  # hardware ids, of which there are 16
    allocate_shared,  # byte offsets, limit checked
    reshape_pointwise,  # the epilogue's arithmetic, cheaper where an identity allows it
    simplify,
)

_IN_TENSOR_MEMORY: Mapping[Pass, tuple[Pass, ...]] = {
    promote_sums: (),  # of types that have no form here yet
    load_scales_ahead: (),
    order_promotions: (),
    synchronize_wgmma: (synchronize_tcgen05,),  # completion is what rings are told
    allocate_shared: (allocate_tensor_memory, allocate_shared),  # the word with the address
}
"""What stands in place of some passes where accumulators are in tensor memory."""

PIPELINES: Mapping[str, tuple[Pass, ...]] = {
    HOPPER.arch: PASSES,
    BLACKWELL.arch: tuple(p for run in PASSES for p in _IN_TENSOR_MEMORY.get(run, (run,))),
}
"""The passes of each target, by the name that compilers have for it."""

FINAL: Mapping[str, Stage] = {
    arch: Stage(frozenset(run.__name__ for run in passes)) for arch, passes in PIPELINES.items()
}
"""Of what the emitter and the machine take of a target: all of its passes have run."""


@dataclass(frozen=True, slots=True)
class Step:
    """One pass that ran: its name and the kernel after it."""

    name: str
    kernel: Kernel


def run_passes(kernel: Kernel, options: LoweringOptions, dump: Dumper | None = None) -> Kernel:
    """Lower ``kernel`` through its target's passes.

    What a pass leaves is verified when it is dumped. Otherwise only the last kernel is, which takes
    half the time, and if something is wrong all goes once more, to find the pass.

    Raises:
        ScheduleError, UnsupportedError: a pass found the schedule illegal, or beyond what is built,
            or the target has no passes.
        InternalError: a pass left an ill-formed kernel; names the pass and shows the IR.
    """
    if dump is None:
        try:
            last = _lowered(kernel, options)
            if not verify(last, FINAL[last.target.arch]):
                return last
        except Exception:  # a pass refuses, or stumbles, perhaps over what another one had left
            for _ in steps(kernel, options):
                pass
            raise
    for step in steps(kernel, options):
        kernel = step.kernel
        if dump is not None:
            dump.step(step.name, kernel, options)
    return kernel


def passes_of(kernel: Kernel) -> tuple[Pass, ...]:
    """The passes of a kernel's target; UnsupportedError if it has none."""
    arch = kernel.target.arch
    if arch not in PIPELINES:
        raise UnsupportedError(f"lowering a kernel for {arch}", ", ".join(PIPELINES))
    return PIPELINES[arch]


def _lowered(kernel: Kernel, options: LoweringOptions) -> Kernel:
    for run in passes_of(kernel):
        kernel = run(kernel, options)
    return kernel


def steps(kernel: Kernel, options: LoweringOptions) -> Iterator[Step]:
    """The kernel before the first pass (``"lower"``) and after each, verified."""
    stage = Stage()
    yield Step("lower", _checked("lower", kernel, stage))
    for run in passes_of(kernel):
        stage = stage.after(run.__name__)
        kernel = _checked(run.__name__, run(kernel, options), stage)
        yield Step(run.__name__, kernel)


def _checked(name: str, kernel: Kernel, stage: Stage) -> Kernel:
    problems = verify(kernel, stage)
    if problems:
        raise InternalError(name, "; ".join(problems), print_kernel(kernel))
    return kernel
