"""Whether a kernel sums along K in the one order that does not depend on the problem."""

from __future__ import annotations

from lowering.ground.errors import ScheduleError
from wsched.schedule.matmul.params import MatmulParams, MmaMacro, TilingStrategy

__all__ = ["fixed_k_order", "refuse_other_k_orders"]


def fixed_k_order(params: MatmulParams) -> bool:
    """Whether each element of the product is one sum over all of K, in order, wgmma by wgmma.

    Such kernels give an element the same bits whatever their tiles are: a wgmma adds 16 columns of
    K to each accumulator, and an accumulator knows nothing of its neighbours. Zeros behind the last
    column, whose number does depend on the tile, add nothing. A kernel that splits K, among CTAs or
    among warpgroups, adds partial sums, which is another order.
    """
    split = params.splitk_factor != 1 or params.along_k != 1
    split |= params.tiling_strategy is TilingStrategy.DistributeStagesAcrossSMs
    return not split and params.mma_macro.k == MmaMacro().k


def refuse_other_k_orders(params: MatmulParams) -> None:
    """Refuse batch-invariant parameters with another order of K.

    Raises:
        ScheduleError: rule ``params``.
    """
    if params.batch_invariant and not fixed_k_order(params):
        raise ScheduleError(
            "params",
            f"MatmulParams(batch_invariant=True, tiling_strategy={params.tiling_strategy}, "
            f"splitk_factor={params.splitk_factor}, mma_macro={params.mma_macro})",
            "with K split or another wgmma the bits of a row would depend on the schedule, and "
            "that on M",
            ("one CTA that sums all of K, with k16 wgmmas", "batch_invariant=False"),
        )
