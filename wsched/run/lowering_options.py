"""What the passes are told, from a schedule and its options."""

from __future__ import annotations

from lowering.ground.expr import Const
from lowering.ground.types import Swizzle
from passes.options import LoweringOptions
from wsched.fusion import LoadStoreOpType, ParallelType
from wsched.fusion.expr import LoadStoreOp
from wsched.run.watched import bound_from_environment
from wsched.schedule.options import CachePolicy, KernelOptions
from wsched.schedule.plan import Plan

__all__ = ["lowering_options"]

_WORDS = {CachePolicy.EvictFirst: "evict_first", CachePolicy.EvictLast: "evict_last"}


def lowering_options(plan: Plan, options: KernelOptions) -> LoweringOptions:
    """The options of the passes for a schedule that has been proved.

    Raises:
        WschedError: the environment asks for a watchdog with something that is no number.
    """
    buffers = options.epilogue_stages
    return LoweringOptions(
        epilogue_stages=_epilogue_stages(plan) if buffers is None else buffers,
        programmatic_dependent_launch=options.programmatic_dependent_launch,
        prefetched=tuple(
            (name, ring.buffer.prefetch, 1 if ring.warp_specialized else 2)
            for ring in plan.relations
            for name in ring.loads
        ),
        prefetched_steps=options.prefetched_steps,
        cache_policies=tuple((n, _WORDS[p]) for n, p in options.cache_policies if p in _WORDS),
        l2_promotions=tuple((n, p.value) for n, p in options.l2_promotions),
        promote_prologue_smem_reuse=options.promote_prologue_smem_reuse,
        deferred_stores=options.deferred_stores,
        smem_swizzles=tuple((n, Swizzle(s.value)) for n, s in options.smem_swizzles if s.value),
        vector_registers=options.vector_registers,
        slice_groups=options.slice_groups,
        slice_registers=options.slice_registers,
        watchdog=bound_from_environment(),
        promotion=max((e.promotion for e in plan.fusion.mmas), default=0),
    )


def _epilogue_stages(plan: Plan) -> int:
    """Two where the chunks that TMA stores of a tile can take them in turn, else one."""
    fusion = plan.fusion
    done = fusion.tensor(plan.operands.compute).compute_at
    for e in fusion.exprs:
        tma = isinstance(e, LoadStoreOp) and e.op is LoadStoreOpType.CpAsyncBulkTensorTile
        if not tma or e.output not in {b.tensor for b in fusion.outputs}:
            continue
        loops = fusion.tensor(e.output).loop[done:]
        chunks = [d.extent for d in loops if d.parallel is ParallelType.Serial]
        if not chunks or not isinstance(chunks[-1], Const) or chunks[-1].value % 2:
            return 1
    return 2
