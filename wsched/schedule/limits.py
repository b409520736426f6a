"""Which matmul parameters are legal on Hopper, with a reason for each refusal."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from lowering import hopper
from lowering.errors import ScheduleError, UnsupportedError
from wsched.fusion import DataType, Fusion
from wsched.schedule.checks import Reasons
from wsched.schedule.epilogue_inputs import loaded_types
from wsched.schedule.params import MatmulParams, TilingStrategy

__all__ = ["check_params", "chunk_columns", "require_legal", "shared_bytes"]

SWIZZLE_BYTES = 128
"""Span of the swizzle that operands and results use: the inner bytes of a TMA box."""

SPARE_REGISTERS = 32
"""Registers of a thread beside its accumulators. Seen with ptxas 13.0: no spills up to 200
accumulators at 232 registers and 208 at 240; at 512 threads (128 at entry) m64n192 is the widest
wgmma that compiles."""

MAX_CLUSTER = 8
"""CTAs of a cluster that every Hopper part can schedule (CUDA C++ Programming Guide)."""

BARRIER_BYTES = 1024
"""Shared memory kept for mbarriers and for aligning the first stage."""


def chunk_columns(params: MatmulParams, *types: DataType) -> int:
    """Columns that the epilogue computes at a time: at most 128 bytes of each, dividing the tile.

    ``types`` are those of the results and of the inputs that TMA loads for it.
    """
    return gcd(params.output_tile.n, SWIZZLE_BYTES // max(t.bytes for t in types))


def shared_bytes(
    params: MatmulParams, operand: DataType, *results: DataType, inputs: tuple[DataType, ...] = ()
) -> tuple[int, int]:
    """Bytes of shared memory of (one stage of both operands, all epilogue buffers).

    ``inputs`` are the types of the matrices that TMA loads for the epilogue.
    """
    tile, warp = params.output_tile, params.tile_sizes.warp_tile
    columns = chunk_columns(params, *results, *inputs)
    stage = (tile.m + tile.n) * tile.k * operand.bytes
    stored = warp.m * columns * sum(r.bytes for r in results) * params.use_smem_epilogue
    loaded = tile.m * columns * sum(t.bytes for t in inputs)
    buffers = stored * params.epilogue_stages * params.warpgroups
    return stage, buffers + loaded * params.epilogue_input_stages


def require_legal(fusion: Fusion, params: MatmulParams) -> None:
    """Refuse parameters that are illegal or have no kernel.

    Raises:
        UnsupportedError: legal in nvFuser, but not built.
        ScheduleError: rule ``params``, with every reason; rule ``smem`` with the stages that fit.
    """
    _refuse_unsupported(params)
    tiles = params.tile_sizes
    wrote = f"MatmulParams(cta_tile={tiles.cta_tile}, warp_tile={tiles.warp_tile}, ...)"
    reasons = check_params(params) or _layout_reasons(fusion, params)
    if reasons:
        raise ScheduleError("params", wrote, "; ".join(reasons))
    operand = fusion.tensor(fusion.mma.a).dtype
    results, inputs = [b.dtype for b in fusion.outputs], loaded_types(fusion, params)
    stage, epilogue = shared_bytes(params, operand, *results, inputs=inputs)
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    fixed, room = epilogue + BARRIER_BYTES, hopper.SHARED_BYTES - BARRIER_BYTES
    if stages * stage + epilogue > room:
        most = (hopper.SHARED_BYTES - fixed) // stage
        fitting = range(params.wgmma_in_flight + 1, most + 1)
        unloaded = replace(params, epilogue_input_stages=0)
        legal = [f"smem_circular_buffer_stage={n}" for n in fitting if n > 1]
        if inputs and stages * stage + shared_bytes(unloaded, operand, *results)[1] <= room:
            legal.append("epilogue_input_stages=0")
        raise ScheduleError(
            "smem",
            f"smem_circular_buffer_stage={stages}",
            f"{stages} stages of {_kib(stage)} + epilogue {_kib(epilogue)} + barriers "
            f"{_kib(BARRIER_BYTES)} = {_kib(stages * stage + fixed)}, limit "
            f"{_kib(hopper.SHARED_BYTES)}",
            tuple(legal),
        )


def check_params(params: MatmulParams) -> Reasons:
    """All reasons why the parameters are illegal on any problem."""
    return _tile_reasons(params) or [
        *_mma_reasons(params),
        *_buffer_reasons(params),
        *_register_reasons(params),
        *_grid_reasons(params),
    ]


def _layout_reasons(fusion: Fusion, params: MatmulParams) -> Reasons:
    """Reasons why the parameters are illegal for operands that lie in memory as they do.

    M is a multiple of wgmma's 64 already.
    """
    b, n = fusion.source(fusion.mma.b), params.output_tile.n
    narrowest = hopper.NARROWEST_SWIZZLE // b.dtype.bytes
    if not b.allocation or n % narrowest == 0:
        return []
    return [
        f"the tile's n {n} is no multiple of {narrowest}: an N-major operand is stored in swizzle "
        f"spans of at least {hopper.NARROWEST_SWIZZLE} bytes"
    ]


def _refuse_unsupported(params: MatmulParams) -> None:
    tiles = params.tile_sizes
    if params.tiling_strategy is TilingStrategy.DistributeStagesAcrossSMs:
        raise UnsupportedError(
            "tiling_strategy=DistributeStagesAcrossSMs",
            "OneTilePerCTA, DistributeTilesAcrossSMs",
        )
    if params.splitk_factor != 1:
        raise UnsupportedError(f"splitk_factor={params.splitk_factor}", "splitk_factor=1")
    if not params.use_ldst_matrix:
        raise UnsupportedError("use_ldst_matrix=False", "use_ldst_matrix=True")
    if params.promote_prologue_smem_reuse:
        raise UnsupportedError("promote_prologue_smem_reuse=True", "False")
    if params.ping_pong and not params.persistent:
        raise UnsupportedError(
            "buffering_loop_level=WarpTiles with tiling_strategy=OneTilePerCTA",
            "WarpTiles with DistributeTilesAcrossSMs: a warpgroup needs a second tile to overlap",
        )
    if not params.ping_pong and tiles.cta_tile.n > tiles.warp_tile.n > 0:
        raise UnsupportedError(
            f"a warp tile {tiles.warp_tile} that splits N of the CTA tile {tiles.cta_tile}",
            "warp tiles as wide as the CTA tile",
        )
    if params.tile_sizes.cta_tile.k % (SWIZZLE_BYTES // 2):
        raise UnsupportedError(
            f"a CTA tile with k={tiles.cta_tile.k}", "multiples of 64: whole 128-byte swizzle rows"
        )


def _tile_reasons(params: MatmulParams) -> Reasons:
    cta, warp = params.tile_sizes.cta_tile, params.tile_sizes.warp_tile
    if min(cta.m, cta.n, cta.k, warp.m, warp.n, warp.k) < 1:
        return ["tiles have positive sizes"]
    reasons = [
        f"the CTA tile's {axis} {c} is no multiple of the warp tile's {w}"
        for axis, c, w in (("m", cta.m, warp.m), ("n", cta.n, warp.n))
        if c % w
    ]
    if cta.k != warp.k:
        reasons.append(f"the warp tile's k {warp.k} differs from the CTA tile's {cta.k}")
    tile = params.output_tile
    reasons += [
        f"a TMA box has at most {hopper.TMA_BOX_MAX} rows, the tile's {axis} is {size}"
        for axis, size in (("m", tile.m), ("n", tile.n))
        if size > hopper.TMA_BOX_MAX
    ]
    return reasons


def _mma_reasons(params: MatmulParams) -> Reasons:
    macro, warp = params.mma_macro, params.tile_sizes.warp_tile
    reasons: Reasons = []
    if (macro.m, macro.k) != (hopper.WGMMA_M, hopper.WGMMA_K_BYTES // 2):
        reasons.append(f"{macro}: wgmma of 16-bit operands is m64 and k16")
    if macro.n not in hopper.WGMMA_N:
        reasons.append(f"{macro}: wgmma's n is a multiple of 8 from 8 to 256")
    if warp.m % hopper.WGMMA_M:
        reasons.append(f"the warp tile's m {warp.m} is no multiple of wgmma's {hopper.WGMMA_M}")
    if macro.n != warp.n:
        reasons.append(f"{macro} does not span the warp tile's n {warp.n}")
    return reasons


def _buffer_reasons(params: MatmulParams) -> Reasons:
    options, flying = params.circular_buffer_options, params.wgmma_in_flight
    stages = options.smem_circular_buffer_stage
    gap = options.smem_circular_buffer_prefetch_gap
    reasons: Reasons = []
    if not options.circular_buffer_smem_write:
        reasons.append("circular_buffer_smem_write=False: TMA loads are circular-buffered")
    if options.circular_buffer_smem_read:
        reasons.append("circular_buffer_smem_read=True: wgmma reads shared memory itself")
    if flying < 0 or gap != flying + 1:
        reasons.append(
            f"smem_circular_buffer_prefetch_gap={gap} leaves {gap - 1} wgmma groups in flight, "
            f"wgmma_in_flight={flying}"
        )
    if stages < max(2, flying + 1):
        reasons.append(
            f"{stages} stages: a ring has at least 2, and one more than the {flying} wgmma groups "
            "in flight"
        )
    if params.epilogue_stages < 1:
        reasons.append(f"epilogue_stages={params.epilogue_stages}: a store needs a buffer")
    if params.supported_vec_size.epilogue not in (1, 2):
        reasons.append(
            f"supported_vec_size.epilogue={params.supported_vec_size.epilogue}: a thread holds two "
            "columns next to each other, and accesses 1 or 2 at once"
        )
    if params.epilogue_input_stages < 0 or params.epilogue_input_stages == 1:
        reasons.append(
            f"epilogue_input_stages={params.epilogue_input_stages}: a ring has at least 2 stages, "
            "and 0 means none"
        )
    return reasons


def _register_reasons(params: MatmulParams) -> Reasons:
    groups = params.warpgroups + int(params.warp_specialized)
    threads = groups * hopper.WARPGROUP
    if threads > hopper.MAX_THREADS:
        return [f"{groups} warpgroups are {threads} threads, a CTA has {hopper.MAX_THREADS}"]
    entry = hopper.registers_at_entry(threads)
    pair = params.num_registers if params.warp_specialized else None
    compute = entry if pair is None else pair[1]
    warp, macro = params.tile_sizes.warp_tile, params.mma_macro
    total = warp.m * warp.n // hopper.WARPGROUP
    single = macro.m * macro.n // hopper.WARPGROUP
    reasons: Reasons = []
    if total + SPARE_REGISTERS > compute:
        reasons.append(
            f"{total} accumulators and {SPARE_REGISTERS} other registers a thread exceed {compute}"
        )
    if single + SPARE_REGISTERS > entry:
        reasons.append(
            f"{macro} has {single} accumulators a thread, but {threads} threads start with {entry} "
            f"registers, {SPARE_REGISTERS} of them for other use"
        )
    return reasons


def _grid_reasons(params: MatmulParams) -> Reasons:
    cluster, (outer, inner) = params.cluster_dims, params.grid_traversal_factor
    reasons: Reasons = []
    if min(cluster.m, cluster.n) < 1 or cluster.m * cluster.n > MAX_CLUSTER:
        reasons.append(f"a cluster of {cluster.m} x {cluster.n} CTAs, at most {MAX_CLUSTER} fit")
    if outer < 1 or inner != 1:
        reasons.append(
            f"grid_traversal_factor=({outer}, {inner}): the order groups the slower dimension of "
            "the tile grid, (G, 1)"
        )
    if params.ping_pong and params.warpgroups < 2:
        reasons.append(
            "buffering_loop_level=WarpTiles: one warp tile in the CTA tile, nobody to "
            "alternate with"
        )
    return reasons


def _kib(size: int) -> str:
    return f"{size / 1024:g} KiB"
