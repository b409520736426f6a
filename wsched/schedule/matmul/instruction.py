"""Which matrix instruction a schedule names, and what it says of accumulators in tensor memory."""

from __future__ import annotations

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.target.target import Target
from lowering.target.tensor_memory import LANES
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import MatmulParams, TilingStrategy
from wsched.schedule.primitives.checks import Reasons

__all__ = ["instruction_reasons", "refuse_in_tensor_memory", "sum_stages"]

MOST_SUMS = 2
"""Stages of an accumulator: products of a tile run while the epilogue reads the one before."""

WHOLE_TILES = (
    TilingStrategy.DistributeTilesAcrossSMs,
    TilingStrategy.DistributeTilesDynamically,
)
"""How tiles go to CTAs that have several, and each of them alone."""


def instruction_reasons(params: MatmulParams, target: Target) -> Reasons:
    """Why a target's instruction is not the macro, or does not multiply the tile."""
    mma, macro, warp = target.mma, params.mma_macro, params.tile_sizes.warp_tile
    k, reasons = mma.k_bytes // 2, list[str]()
    if macro.arch.name != mma.macro:
        return [f"{macro} is no instruction of {target.arch}, whose are {mma.macro}"]
    rows = mma.m * mma.ctas
    if (macro.m, macro.k) != (rows, k):
        reasons.append(f"{macro}: {mma.name} of 16-bit operands is m{rows} and k{k}")
    form = mma.form(DType.BF16, DType.BF16, DType.F32)
    if form is not None and macro.n not in form.n:
        reasons.append(f"{macro}: {mma.name}'s n is {form.columns}")
    if warp.m % mma.m:
        reasons.append(f"the warp tile's m {warp.m} is no multiple of {mma.name}'s {mma.m}")
    if macro.n != warp.n:
        reasons.append(f"{macro} does not span the warp tile's n {warp.n}")
    if warp.k % k:
        reasons.append(f"the tile's k {warp.k} is no multiple of {mma.name}'s {k}")
    memory = target.tensor_memory
    if memory is not None and (columns := sum_columns(params)) > memory.columns:
        reasons.append(
            f"a tile of {params.output_tile} takes {columns} columns of tensor memory, an SM has "
            f"{memory.columns}"
        )
    return reasons


def sum_columns(params: MatmulParams) -> int:
    """Columns of tensor memory that the sums of a tile take."""
    tile = params.output_tile
    return -(-tile.m // LANES) * tile.n


def sum_stages(params: MatmulParams, target: Target) -> int:
    """Stages of an accumulator in tensor memory, 0 where registers have it."""
    memory = target.tensor_memory
    return 0 if memory is None else min(MOST_SUMS, memory.columns // sum_columns(params))


def refuse_in_tensor_memory(demands: Demands, params: MatmulParams) -> None:
    """Refuse what there is no kernel for where accumulators are in tensor memory.

    Raises:
        UnsupportedError: it.
    """
    if demands.target.tensor_memory is None:
        return
    pair = params.register_pair
    for found, what, supported in (
        (not params.warp_specialized, "Pipelined loads", "WarpSpecialized"),
        (
            params.tiling_strategy not in WHOLE_TILES,
            f"{params.tiling_strategy}",
            " or ".join(map(str, WHOLE_TILES)),
        ),
        (params.splitk_factor > 1, f"splitk_factor={params.splitk_factor}", "1"),
        (params.ping_pong, "buffering_loop_level=WarpTiles", "CTATiles: sums have two stages"),
        (params.across > 1, "warp tiles side by side", "warp tiles below each other"),
        (params.exchange_operands, "exchange_operands=True", "False"),
        (bool(params.thread_loads), "thread_loads", "operands that TMA loads"),
        (pair is not None, f"num_registers={pair}", "None or 'auto': nobody holds sums"),
        (demands.computed is not None, "a computed operand", "operands as they are in memory"),
        (demands.products > 1, f"{demands.products} products", "one"),
        (bool(demands.reductions.types), "reductions of the result", "results as they are"),
    ):
        if found:
            where = f"with accumulators in the tensor memory of {demands.target.arch}"
            raise UnsupportedError(f"{what} {where}", supported)
