"""What nvFuser's Hopper matmul scheduler takes of wsched's parameters, with the reason if not.

Each rule names where it is from: ``HopperPlus::validate`` and ``scheduleOperands`` of nvFuser's
csrc/scheduler/matmul_hopper+.cpp, or what its kernels were seen to do.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.schedule.matmul.params import (
    CachePolicies,
    MatmulParams,
    MmaArch,
    TileRasterizationOrder,
    TilingStrategy,
)

__all__ = ["MAX_STAGES", "REGISTERS", "most_stages", "require_for", "require_taken"]

REGISTERS = (40, 232)
"""Registers of a thread of the (load, compute) warpgroups in nvFuser's kernels with two compute
warpgroups (constants of matmul_hopper+.cpp); with another number it moves none."""

MAX_STAGES = 8
"""nvFuser's limitCircularBufferingSmemOperands: more cost barriers and hide nothing."""

STMATRIX = 16
"""Rows and columns of what nvFuser stores by one stmatrix; issue 3963: other sizes are wrong."""

_BARRIERS = 1024
"""nvFuser places barriers first and aligns what TMA writes behind them."""


def require_taken(params: MatmulParams) -> None:
    """Refuse parameters that nvFuser's scheduler refuses, ignores, or makes wrong kernels of.

    Raises:
        UnsupportedError: the first of them, with what is taken in its place.
    """
    for refuse in (_strategies, _tiles, _buffers, _own):
        for what, supported in refuse(params):
            raise UnsupportedError(f"{what} by nvFuser's matmul scheduler", supported)


def require_for(params: MatmulParams, problem: Problem) -> None:
    """Refuse parameters with which nvFuser's kernel would be wrong or not fit for a problem.

    Raises:
        UnsupportedError: stmatrix for sizes that it does not divide.
        ScheduleError: rule ``smem``, with the stages that fit.
    """
    m, n = problem.m, problem.n
    if params.use_smem_epilogue and params.use_ldst_matrix and (m % STMATRIX or n % STMATRIX):
        raise UnsupportedError(
            f"use_ldst_matrix=True for a result of {m} x {n} by nvFuser's matmul scheduler",
            f"sizes that are multiples of {STMATRIX} (nvFuser issue 3963)",
            "Set use_ldst_matrix=False",
        )
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    most = most_stages(params, problem.operand, problem.results)
    if params.persistent and stages > most:
        raise ScheduleError(
            "smem",
            f"smem_circular_buffer_stage={stages}",
            f"{max(most, 0)} stages fit beside nvFuser's epilogue, which keeps a whole tile of "
            "each result",
            tuple(f"smem_circular_buffer_stage={s}" for s in range(2, most + 1)[-1:]),
        )


def most_stages(
    params: MatmulParams,
    operand: DataType,
    results: tuple[DataType, ...],
    matrices: tuple[DataType, ...] = (),
    target: Target = DEFAULT,
) -> int:
    """Stages that fit into shared memory beside nvFuser's epilogue: a whole tile for each tensor.

    ``results`` and ``matrices`` are the types of what the epilogue stores and reads. nvFuser's own
    bound (maximizeHopperOperandStages) leaves ``matrices`` out, although it loads them by TMA too.
    """
    tile = params.output_tile
    kept = (*results, *matrices) if params.use_smem_epilogue else ()
    epilogue = tile.m * tile.n * sum(t.bytes for t in kept)
    stage = (tile.m + tile.n) * tile.k * operand.bytes
    return min((target.shared_bytes - _BARRIERS - epilogue) // stage, MAX_STAGES)


_Refusals = Iterator[tuple[str, str]]


def _strategies(params: MatmulParams) -> _Refusals:
    tiling = params.tiling_strategy
    if tiling is TilingStrategy.DistributeStagesAcrossSMs:
        yield f"tiling_strategy={tiling}", "OneTilePerCTA, DistributeTilesAcrossSMs"
    if params.persistent and params.splitk_factor != 1:
        yield (
            f"splitk_factor={params.splitk_factor} with tiling_strategy={tiling}",
            "split-K with OneTilePerCTA",
        )
    if params.ping_pong and not params.persistent:
        yield (
            f"buffering_loop_level=WarpTiles with tiling_strategy={tiling}",
            "WarpTiles with DistributeTilesAcrossSMs: it has no second tile to alternate with",
        )
    if params.ping_pong and not params.warp_specialized:
        strategy = params.circular_buffering_strategy
        yield (
            f"buffering_loop_level=WarpTiles with circular_buffering_strategy={strategy}",
            "WarpTiles with WarpSpecialized",
        )
    cluster = params.cluster_dims
    by_rows = params.cta_order is TileRasterizationOrder.RowMajor
    if not params.persistent and by_rows and cluster.m != cluster.n:
        yield (
            f"cluster_dims=({cluster.m}, {cluster.n}) with OneTilePerCTA and cta_order=RowMajor",
            "ColumnMajor: RowMajor swaps M and N of the grid, but not of the cluster",
        )


def _tiles(params: MatmulParams) -> _Refusals:
    cta, warp, macro = params.tile_sizes.cta_tile, params.tile_sizes.warp_tile, params.mma_macro
    sizes = [size for t in (cta, warp, macro) for size in (t.m, t.n, t.k)]
    if min(sizes) < 1:
        yield f"a CTA tile {cta} of warp tiles {warp} with {macro}", "positive sizes"
    if macro.arch is not MmaArch.Hopper:
        yield f"the macro {macro}", "those of Hopper: its scheduler for Blackwell is another"
    if params.ping_pong and params.warpgroups != 2:
        yield f"ping-pong over {params.warpgroups} warpgroups", "two warpgroups, a constant of it"
    if cta.m % warp.m or cta.n % warp.n or cta.k != warp.k:
        yield (
            f"a warp tile {warp} of the CTA tile {cta}",
            "warp tiles that divide M and N of the CTA tile and have its K",
        )
    if warp.m % macro.m or warp.n % macro.n or warp.k % macro.k:
        yield f"a warp tile {warp} with {macro}", "warp tiles that the macro divides"
    if params.use_smem_epilogue and warp.n != cta.n and warp.n % 64:
        yield (
            f"use_smem_epilogue=True with warp tiles of {warp.n} of {cta.n} columns",
            "multiples of 64 columns, or one warp tile along N (nvFuser issue 3602)",
        )
    if not params.use_smem_epilogue and params.supported_vec_size.epilogue < 2:
        yield (
            "use_smem_epilogue=False with supported_vec_size.epilogue=1",
            "2: its threads store two elements at once",
        )


def _buffers(params: MatmulParams) -> _Refusals:
    options, flying = params.circular_buffer_options, params.wgmma_in_flight
    stages = options.smem_circular_buffer_stage
    gap = options.smem_circular_buffer_prefetch_gap
    if stages > MAX_STAGES:
        yield f"smem_circular_buffer_stage={stages}", f"at most {MAX_STAGES} stages"
    if not 0 < gap <= stages:
        yield f"smem_circular_buffer_prefetch_gap={gap}", f"1 to {stages}, the stages"
    if params.warp_specialized and flying != gap - 1:
        yield (
            f"wgmma_in_flight={flying} with smem_circular_buffer_prefetch_gap={gap}",
            f"wgmma_in_flight={gap - 1}: its kernels keep as many groups in flight as the gap less "
            "one",
        )
    if options.circular_buffer_smem_read:
        yield "circular_buffer_smem_read=True", "False: wgmma reads shared memory"
    if not options.circular_buffer_smem_write:
        yield "circular_buffer_smem_write=False", "True"


def _own(params: MatmulParams) -> _Refusals:
    """What only wsched's parameters can say, where nvFuser's kernels do otherwise."""
    pair = params.register_pair
    moved = params.warp_specialized and params.warpgroups == 2
    if pair is not None and not (moved and pair == REGISTERS):
        supported = (
            f"{REGISTERS}, a constant of it" if moved else "none but with two compute warpgroups"
        )
        yield f"num_registers={pair}", f'{supported}; or "auto"'
    if params.cache_policies != CachePolicies():
        yield f"cache_policies=({params.cache_policies})", "EvictNormal"
    if params.thread_loads:
        yield f"thread_loads={params.thread_loads}", "none: its operands are loaded by TMA"
    if params.smem_swizzles:
        yield f"smem_swizzles=({params.smem_swizzles})", "Widest"
    if params.halves:
        yield f"accumulators={params.accumulators}", "Widest: its sums are fp32"
    if params.exchange_operands:
        yield "exchange_operands=True", "False: its tiles are those of the product as it is written"
    if params.promote_prologue_smem_reuse:
        yield "promote_prologue_smem_reuse=True", "False: it sets that itself where it is needed"
    first, second = params.grid_traversal_factor
    if min(first, second) < 1 or first < 2 <= second:
        yield f"grid_traversal_factor=({first}, {second})", "(1, 1), (G, 1), (G, H) from 2 on"
