"""Which schedules can have warpgroups that share slices of K, and what shared memory they take."""

from __future__ import annotations

from wsched.fusion import DataType
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.primitives.checks import Reasons

__all__ = ["slice_reasons", "summed_bytes"]


def slice_reasons(demands: Demands, params: MatmulParams) -> Reasons:
    """Why warpgroups cannot share slices of K, where the warp tile's k is a part of the tile's."""
    if params.along_k == 1:
        return []
    count = params.warpgroups // params.along_k
    found = (
        (count > 1, f"{count} warp tiles in a tile"),
        (params.ping_pong, "WarpTiles"),
        (not params.warp_specialized, "Pipelined loads"),
        (params.combines, "parts of tiles on several CTAs"),
        (params.halves, "accumulators=Half"),
        (params.mma_macro.target.tensor_memory is not None, "sums in tensor memory"),
        (demands.products > 1, f"{demands.products} products"),
        (
            demands.promotion > 0 and demands.scaled is None,
            f"sums that are promoted after {demands.promotion} of K",
        ),
        (bool(demands.reductions.types), "results that are reduced"),
    )  # fmt: skip
    tiles = params.tile_sizes
    said = f"the warp tile's k {tiles.warp_tile.k} beside the CTA tile's {tiles.cta_tile.k}"
    return [
        f"{said}: {params.along_k} warpgroups share each slice, which nobody has built for {what}"
        for wrong, what in found
        if wrong
    ]


def summed_bytes(params: MatmulParams) -> int:
    """Bytes of shared memory through which warpgroups that share slices hand each other sums."""
    tile = params.output_tile
    return (params.along_k - 1) * tile.m * tile.n * DataType.Float.bytes
