"""What a kernel may do before the grid in front of it in the stream has ended."""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.ground.frozen import replaced
from wsched.schedule.matmul.params import MatmulParams, TilingStrategy
from wsched.schedule.primitives.checks import Reasons

__all__ = ["in_parts", "in_shares", "launched", "prefetch_reasons", "refuse_prefetch"]


def launched(params: MatmulParams, dependent: bool) -> MatmulParams:
    """The same, launched dependently or not; without hints where nothing is waited for."""
    steps = params.prefetched_steps if dependent else 0
    return replaced(params, programmatic_dependent_launch=dependent, prefetched_steps=steps)


def in_parts(params: MatmulParams, parts: int) -> MatmulParams:
    """The same with K in so many parts; of several without hints: memory tells a CTA its tiles, and
    of parts that are results, whose CTAs know theirs, nobody has measured any.
    """
    steps = params.prefetched_steps if parts == 1 else 0
    return replaced(params, splitk_factor=parts, prefetched_steps=steps)


def in_shares(params: MatmulParams) -> MatmulParams:
    """The same with the steps of all tiles dealt out (stream-K), and no hints, likewise."""
    shares = TilingStrategy.DistributeStagesAcrossSMs
    return replaced(in_parts(params, 1), tiling_strategy=shares, prefetched_steps=0)


def refuse_prefetch(params: MatmulParams) -> None:
    """Refuse to prefetch operands where a CTA does not know its first tile by itself.

    Raises:
        UnsupportedError: it asks memory which tile is its own, or threads load operands.
    """
    asks = params.combines or params.dynamic
    if params.prefetched_steps and (asks or params.thread_loads or not params.warp_specialized):
        raise UnsupportedError(
            f"prefetched_steps={params.prefetched_steps} where memory tells a CTA its tiles, or no "
            "warp of its own loads operands by TMA",
            "prefetched_steps=0",
        )


def prefetch_reasons(params: MatmulParams) -> Reasons:
    """Why no kernel can prefetch so many steps."""
    steps = params.prefetched_steps
    if steps < 0:
        return [f"prefetched_steps={steps}: 0 means none"]
    if steps and not params.programmatic_dependent_launch:
        return [
            f"prefetched_steps={steps}: a kernel that starts when the grid in front has ended "
            "(programmatic_dependent_launch=False) waits for none"
        ]
    return []
