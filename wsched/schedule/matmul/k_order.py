"""Whether a kernel sums along K in the one order that does not depend on the problem."""

from __future__ import annotations

from lowering.ground.errors import ScheduleError
from wsched.schedule.matmul.params import MatmulParams, MmaMacro

__all__ = ["fixed_k_order", "refuse_other_k_orders"]


def fixed_k_order(params: MatmulParams) -> bool:
    """Whether each element of the product is one sum over all of K, in order, wgmma by wgmma.

    Such kernels give an element the same bits whatever their tiles are: a wgmma adds 16 columns of
    K to each accumulator, and an accumulator knows nothing of its neighbours. Zeros behind the last
    column, whose number does depend on the tile, add nothing. A kernel that splits K, among CTAs or
    among warpgroups, adds partial sums, which is another order.
    """
    return not _other_orders(params)


def _other_orders(params: MatmulParams) -> list[str]:
    """The parameters that make another order, as they are written."""
    tiles = params.tile_sizes
    found = {
        f"cta_tile={tiles.cta_tile}, warp_tile={tiles.warp_tile}": params.along_k != 1,
        f"tiling_strategy={params.tiling_strategy}": params.stream_k,
        f"splitk_factor={params.splitk_factor}": params.splitk_factor != 1,
        f"mma_macro={params.mma_macro}": params.mma_macro.k != MmaMacro().k,
    }
    return [written for written, other in found.items() if other]


def refuse_other_k_orders(params: MatmulParams) -> None:
    """Refuse batch-invariant parameters with another order of K.

    Raises:
        ScheduleError: rule ``params``.
    """
    if params.batch_invariant and (found := _other_orders(params)):
        raise ScheduleError(
            "params",
            f"MatmulParams(batch_invariant=True, {', '.join(found)})",
            "with K split, among CTAs or warpgroups, or another wgmma the bits of a row would "
            "depend on the schedule, and that on M",
            (
                "one CTA, and in it one warpgroup, that sums all of K of an element, with k16 "
                "wgmmas",
                "batch_invariant=False",
            ),
        )
