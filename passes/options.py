"""What the passes may choose: a frozen dataclass that every pass takes and the dumps print."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.ground.types import Swizzle

__all__ = ["LoweringOptions"]


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """Options of the lowering.

    Args:
        epilogue_stages: shared-memory buffers of the epilogue per warpgroup, at most one for each
            of its chunks; a TMA store may be in flight from each.
        programmatic_dependent_launch: whether the kernel may start before the grid in front of it
            has ended, and lets the next one do the same.
        early_operands: tensor maps of operands that the grid in front does not write.
        leaves_registers: whether a CTA has no more registers than its roles want.
        prefetched: (shared buffer, steps that its ring is filled ahead, fewest stages that it may
            have), for what is legal in place of a ring that is too large.
        prefetched_steps: of its first tile, for which a CTA asks the L2 for the operands before it
            waits for the grid in front.
        cache_policies: (tensor map, policy) of the copies that have one of their own.
        l2_promotions: (tensor map, bytes) of those with one of their own.
        promote_prologue_smem_reuse: whether the epilogue's buffers lie where the operands' stages
            were.
        deferred_stores: whether a tile's results are stored during the next one's main loop.
        smem_swizzles: (tensor map, span) of the tiles that do not have the widest that fits.
        promotion: K after which sums of wgmma are added to a second accumulator; 0 for never.
        vector_registers: registers of a thread for vectors that an epilogue's chunks share.
        slice_groups: warpgroups that share each slice of K.
        slice_registers: registers of a thread that loads and of one that multiplies, where several
            do; None where all keep what they start with.
        trace_slots: stamps that a warp of a traced kernel has room for; 0 for a kernel without
            stamps.
        watchdog: nanoseconds that a wait may take; 0 for any time.
    """

    epilogue_stages: int = 2
    programmatic_dependent_launch: bool = True
    early_operands: tuple[str, ...] = ()
    leaves_registers: bool = False
    prefetched: tuple[tuple[str, int, int], ...] = field(default=(), repr=False)
    prefetched_steps: int = 0
    cache_policies: tuple[tuple[str, str], ...] = ()
    l2_promotions: tuple[tuple[str, int], ...] = ()
    promote_prologue_smem_reuse: bool = False
    deferred_stores: bool = False
    smem_swizzles: tuple[tuple[str, Swizzle], ...] = ()
    promotion: int = 0
    vector_registers: int = 0
    slice_groups: int = 1
    slice_registers: tuple[int, int] | None = None
    trace_slots: int = 0
    watchdog: int = 0
