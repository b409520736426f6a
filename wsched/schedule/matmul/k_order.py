"""Whether a kernel sums along K in the one order that does not depend on the problem."""

from __future__ import annotations

from wsched.schedule.matmul.params import MatmulParams, MmaMacro, TilingStrategy

__all__ = ["fixed_k_order"]


def fixed_k_order(params: MatmulParams) -> bool:
    """Whether each element of the product is one sum over all of K, in order, wgmma by wgmma.

    Such kernels give an element the same bits whatever their tiles are: a wgmma adds 16 columns of
    K to each accumulator, and an accumulator knows nothing of its neighbours. Zeros behind the last
    column, whose number does depend on the tile, add nothing. A kernel that splits K adds partial
    sums, which is another order.
    """
    split = params.splitk_factor != 1
    split |= params.tiling_strategy is TilingStrategy.DistributeStagesAcrossSMs
    return not split and params.mma_macro.k == MmaMacro().k
