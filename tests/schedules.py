"""The schedules that every end-to-end test runs: one for each way in which a kernel can differ.

``SCHEDULES`` has them by name. Each is legal for 16-bit operands and for every result type, so a
test may combine them freely, but for ``coop_narrow``, whose 24 columns an N-major B cannot have
(swizzle spans are 16 elements at least); where shared memory does not hold the fp32 epilogue,
``for_result`` takes fewer stages, and where stmatrix cannot transpose it none of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lowering.target.hopper import HOPPER
from wsched.fusion import DataType
from wsched.schedule.matmul.params import (
    BufferingLoopLevel,
    CircularBufferingStrategy,
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaArch,
    MmaMacro,
    SplitKMode,
    TileRasterizationOrder,
    TilingStrategy,
)
from wsched.schedule.matmul.reductions import NO_REDUCTIONS, Reductions
from wsched.schedule.matmul.shared import BARRIER_BYTES, shared_bytes

__all__ = [
    "LAYOUTS", "QUICK", "SCHEDULES", "cooperative", "deferred", "definition", "error_limit",
    "for_result", "in_tensor_memory", "parallel_split", "ping_pong", "pipelined", "split_k",
    "stream_k",
]  # fmt: skip

LAYOUTS = ("tn", "tt", "nn", "nt")
"""BLAS letters of A [M, K] and B [N, K]: A is K-major for ``t``, B for ``n``."""

_TYPES = {"bf16": "BFloat16", "f16": "Half", "f32": "Float"}


def definition(
    operand: str = "bf16", result: str = "bf16", op: str = "linear", layout: str = "tn",
    rounded: bool = False,
) -> str:  # fmt: skip
    """The text of a matmul; ``op`` is ``linear``, ``matmul`` or ``matmul_t`` (w transposed).

    ``layout`` is one of ``LAYOUTS``, of a linear only. A result in fp32 is not rounded before
    unless it is told to be.
    """
    wide = (
        f", dtype=DataType.{_TYPES[result]}" if result == "f32" != operand and not rounded else ""
    )
    dtype = f"DataType.{_TYPES[operand]}"
    tensor = f"fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype={dtype})"
    lines = [
        "def nvfuser_fusion(fd : FusionDefinition) -> None :",
        f"    x = {tensor}",
    ]
    match op:
        case "linear":
            columns = tensor.replace("contiguity", "stride_order=[0, 1], contiguity")
            x, w = (columns if layout[i] == "nt"[i] else tensor for i in (0, 1))
            lines[1:] = [f"    x = {x}", f"    w = {w}", f"    d = fd.ops.linear(x, w{wide})"]
        case "matmul_t":
            lines += [
                f"    w = {tensor}",
                "    t = fd.ops.permute(w, dims=[1, 0])",
                f"    d = fd.ops.matmul(x, t{wide})",
            ]
        case _:
            columns = tensor.replace("contiguity", "stride_order=[0, 1], contiguity")
            lines += [f"    w = {columns}", f"    d = fd.ops.matmul(x, w{wide})"]
    made = "f32" if wide else operand
    if result != made:
        lines += [f"    c = fd.ops.cast(d, dtype=DataType.{_TYPES[result]})"]
    output = "d" if result == made else "c"
    return "\n".join([*lines, f"    fd.add_output({output})", ""])


def error_limit(operand: str, result: str) -> float:
    """Largest relative Frobenius error against fp32.

    The result is rounded to the operands' type first, as fd.ops.linear says, but for results in
    fp32.
    """
    limits = {"bf16": 4e-3, "f16": 6e-4, "f32": 2e-5}
    return limits["f32"] if result == "f32" else max(limits[operand], limits[result])


def cooperative(
    m: int,
    n: int,
    k: int = 64,
    *,
    stages: int = 4,
    in_flight: int = 1,
    groups: int = 2,
    registers: tuple[int, int] | None = (40, 232),
    traversal: tuple[int, int] = (1, 1),
    order: TileRasterizationOrder = TileRasterizationOrder.RowMajor,
    persistent: bool = True,
    epilogue_stages: int = 1,
    cluster: tuple[int, int] = (1, 1),
    across: int = 1,
) -> MatmulParams:
    """``groups`` warpgroups share a tile of ``m x n x k``, ``across`` of them side by side."""
    strategy = TilingStrategy
    return MatmulParams(
        tiling_strategy=(
            strategy.DistributeTilesAcrossSMs if persistent else strategy.OneTilePerCTA
        ),
        cta_order=order,
        circular_buffer_options=CircularBufferOptions(
            smem_circular_buffer_stage=stages, smem_circular_buffer_prefetch_gap=in_flight + 1
        ),
        tile_sizes=MatMulTileOptions(
            GemmTile(m, n, k), GemmTile(m * across // groups, n // across, k)
        ),
        mma_macro=MmaMacro(64, n // across, 16),
        grid_traversal_factor=traversal,
        num_registers=registers,
        wgmma_in_flight=in_flight,
        epilogue_stages=epilogue_stages,
        cluster_dims=ClusterDims(*cluster),
    )


def ping_pong(
    m: int,
    n: int,
    k: int = 64,
    *,
    stages: int = 4,
    in_flight: int = 1,
    epilogue_stages: int = 1,
    traversal: tuple[int, int] = (1, 1),
    cluster: tuple[int, int] = (1, 1),
) -> MatmulParams:
    """Two warpgroups take turns, each with tiles of its own of ``m x n x k``."""
    shared = cooperative(
        2 * m,
        n,
        k,
        stages=stages,
        in_flight=in_flight,
        epilogue_stages=epilogue_stages,
        traversal=traversal,
        cluster=cluster,
    )
    return replace(shared, buffering_loop_level=BufferingLoopLevel.WarpTiles)


def exchanged(params: MatmulParams) -> MatmulParams:
    """The same of the transposed product."""
    return replace(params, exchange_operands=True)


def pipelined(params: MatmulParams) -> MatmulParams:
    """The same without a load warpgroup: the compute warpgroups load ahead of themselves."""
    return replace(
        params,
        circular_buffering_strategy=CircularBufferingStrategy.Pipelined,
        num_registers=None,
    )


def split_k(params: MatmulParams, parts: int) -> MatmulParams:
    """The same with K split into ``parts`` over CTAs."""
    return replace(params, splitk_factor=parts)


def parallel_split(params: MatmulParams, parts: int) -> MatmulParams:
    """The same with K in so many parts, which are results that another kernel adds up."""
    return replace(params, splitk_factor=parts, splitk_mode=SplitKMode.Parallel)


def stream_k(params: MatmulParams) -> MatmulParams:
    """The same with the load steps of all tiles dealt out to CTAs."""
    return replace(params, tiling_strategy=TilingStrategy.DistributeStagesAcrossSMs)


def in_tensor_memory(
    m: int, n: int, k: int = 64, *, stages: int = 3, **others: Any
) -> MatmulParams:
    """For sm_100a: a warp loads, a thread multiplies, of each 128 rows a warpgroup stores."""
    return MatmulParams(
        tile_sizes=MatMulTileOptions(GemmTile(m, n, k), GemmTile(128, n, k)),
        mma_macro=MmaMacro(128, n, arch=MmaArch.Blackwell1CTA),
        circular_buffer_options=CircularBufferOptions(smem_circular_buffer_stage=stages),
        **others,
    )


def deferred(params: MatmulParams) -> MatmulParams:
    """The same with each tile stored during the next one."""
    return replace(params, deferred_stores=True)


def dynamic(params: MatmulParams) -> MatmulParams:
    """The same with tiles that are dealt out at run time."""
    return replace(params, tiling_strategy=TilingStrategy.DistributeTilesDynamically)


_COLUMNS = TileRasterizationOrder.ColumnMajor

SCHEDULES: dict[str, MatmulParams] = {
    "coop_128x256": cooperative(128, 256),
    "coop_128x192": cooperative(128, 192),
    "coop_128x128": cooperative(128, 128, stages=6, epilogue_stages=2),
    "coop_128x64": cooperative(128, 64, stages=8),
    "coop_k128": cooperative(128, 128, 128, stages=3),
    "coop_k32": cooperative(128, 128, 32, stages=6),
    "coop_narrow": cooperative(128, 24, 32),
    "coop_in_flight_0": cooperative(128, 128, in_flight=0),
    "coop_in_flight_2": cooperative(128, 128, in_flight=2),
    "coop_2_stages": cooperative(128, 256, stages=2),
    "coop_1_stage": cooperative(128, 128, stages=1, in_flight=0),
    "coop_traversal": cooperative(128, 128, traversal=(8, 1)),
    "coop_traversal_odd": cooperative(128, 64, traversal=(3, 1), order=_COLUMNS),
    "coop_columns": cooperative(128, 128, order=_COLUMNS),
    "coop_1_group": cooperative(64, 256, groups=1, registers=None),
    "coop_1_group_2_rows": cooperative(128, 128, groups=1, registers=None),
    "coop_256x128": cooperative(256, 128),
    "coop_3_groups": cooperative(192, 128, groups=3, registers=(32, 160)),
    "across_128x256": cooperative(128, 256, across=2, stages=3),
    "across_128x384": cooperative(128, 384, across=2, stages=3, registers=(24, 240)),
    "across_2x2": cooperative(128, 256, groups=4, across=2, registers=(40, 104)),
    "coop_24_240": cooperative(128, 256, registers=(24, 240)),
    "coop_no_setmaxnreg": cooperative(128, 128, registers=None),
    "tile_per_cta": cooperative(128, 128, persistent=False),
    "tile_per_cta_256": cooperative(128, 256, persistent=False, traversal=(4, 1)),
    "cluster_2x1": cooperative(128, 256, cluster=(2, 1), traversal=(8, 1)),
    "cluster_1x2": cooperative(128, 128, cluster=(1, 2)),
    "cluster_2x2": cooperative(128, 128, cluster=(2, 2), in_flight=0),
    "cluster_4x1": cooperative(128, 128, cluster=(4, 1), traversal=(8, 1)),
    "cluster_1x4_across": cooperative(64, 256, across=2, cluster=(1, 4)),
    "cluster_tile_per_cta": cooperative(128, 64, cluster=(2, 1), persistent=False),
    "cluster_pingpong": ping_pong(128, 128, cluster=(2, 1), traversal=(8, 1)),
    "pipelined": pipelined(cooperative(128, 128)),
    "pipelined_256": pipelined(cooperative(128, 256, in_flight=0, traversal=(8, 1))),
    "pipelined_1_group": pipelined(cooperative(64, 128, groups=1, stages=6, in_flight=2)),
    "pipelined_tile_per_cta": pipelined(cooperative(128, 64, stages=3, persistent=False)),
    "pingpong_128x128": ping_pong(128, 128),
    "pingpong_64x256": ping_pong(64, 256),
    "across_pipelined": pipelined(cooperative(128, 128, across=2)),
    "split_across": split_k(cooperative(64, 256, across=2), 3),
    "stream_k_across": stream_k(cooperative(128, 128, across=2)),
    "pingpong_64x128": ping_pong(64, 128, stages=7, epilogue_stages=2),
    "dynamic": dynamic(cooperative(128, 256, traversal=(8, 1))),
    "dynamic_1_group": dynamic(cooperative(64, 128, groups=1, stages=6, registers=None)),
    "dynamic_cluster": dynamic(cooperative(128, 256, cluster=(2, 1), traversal=(8, 1))),
    "dynamic_cluster_2x2": dynamic(cooperative(128, 128, cluster=(2, 2), in_flight=0)),
    "dynamic_pingpong": dynamic(ping_pong(128, 128)),
    "dynamic_cluster_pingpong": dynamic(ping_pong(64, 256, cluster=(1, 2), stages=3)),
    "pingpong_in_flight_0": ping_pong(64, 128, stages=3, in_flight=0),
    "exchanged": exchanged(cooperative(128, 16, stages=8)),
    "exchanged_boxes": exchanged(cooperative(256, 96, stages=3, epilogue_stages=2)),
    "exchanged_k128": exchanged(cooperative(64, 32, 128, groups=1, stages=6, registers=None)),
    "exchanged_cluster": exchanged(cooperative(128, 128, cluster=(1, 2), traversal=(8, 1))),
    "exchanged_across": exchanged(cooperative(128, 128, across=2, order=_COLUMNS)),
    "exchanged_pingpong": exchanged(ping_pong(128, 128)),
    "exchanged_pipelined": exchanged(pipelined(cooperative(128, 64))),
    "exchanged_dynamic": exchanged(dynamic(cooperative(128, 64))),
    "exchanged_split": exchanged(split_k(cooperative(128, 64), 3)),
    "exchanged_stream_k": exchanged(stream_k(cooperative(128, 64))),
    "split_2": split_k(cooperative(128, 128), 2),
    "split_3_traversal": split_k(cooperative(128, 256, traversal=(8, 1)), 3),
    "split_8_1_group": split_k(cooperative(64, 128, groups=1, registers=None), 8),
    "split_cluster": split_k(cooperative(128, 128, cluster=(2, 1)), 2),
    "split_tile_per_cta": split_k(cooperative(128, 64, persistent=False), 4),
    "split_pingpong": split_k(ping_pong(64, 128, traversal=(8, 1)), 2),
    "deferred": deferred(cooperative(128, 256, registers=(24, 240), traversal=(8, 1))),
    "deferred_across": deferred(cooperative(128, 128, across=2)),
    "deferred_cluster": deferred(cooperative(128, 64, cluster=(2, 1), stages=6)),
    "deferred_dynamic": deferred(dynamic(cooperative(192, 128, groups=3, registers=(32, 160)))),
    "deferred_exchanged": deferred(exchanged(cooperative(256, 96, stages=3, epilogue_stages=2))),
    "stream_k": stream_k(cooperative(128, 128)),
    "stream_k_256": stream_k(cooperative(128, 256, traversal=(8, 1))),
    "stream_k_1_group": stream_k(cooperative(64, 64, groups=1, registers=None, stages=8)),
    "stream_k_cluster": stream_k(cooperative(128, 128, cluster=(1, 2), in_flight=0)),
    "stream_k_pingpong": stream_k(ping_pong(128, 128)),
    "stream_k_pingpong_cluster": stream_k(ping_pong(64, 128, cluster=(2, 1), stages=6)),
}
"""By name; all compile without spills and run on every problem whose rows are 16-byte aligned."""

QUICK = frozenset({
    "coop_128x256", "coop_128x128", "coop_narrow", "coop_k32", "coop_1_stage", "coop_columns",
    "coop_1_group_2_rows", "coop_3_groups", "across_2x2", "tile_per_cta_256", "cluster_2x1",
    "cluster_tile_per_cta", "cluster_pingpong", "deferred_cluster", "deferred_dynamic",
    "deferred_exchanged", "pipelined_1_group", "across_pipelined",
    "pingpong_64x128", "dynamic_1_group", "dynamic_cluster_pingpong", "exchanged",
    "exchanged_boxes", "exchanged_cluster", "exchanged_dynamic", "split_cluster",
    "split_pingpong", "stream_k", "stream_k_cluster",
})  # fmt: skip
"""One for each of their kinds, the cheaper ones: tests with the others are slow."""


def for_result(
    params: MatmulParams,
    result: str,
    operand: str = "bf16",
    inputs: tuple[str, ...] = (),
    reductions: Reductions = NO_REDUCTIONS,
) -> MatmulParams:
    """``params`` with as many stages, up to its own, as fit beside the epilogue of ``result``.

    ``inputs`` are the types of the matrices that the load warpgroup loads for it; ``reductions``
    are the results that are such, of the product as it is defined.
    """
    types = DataType[_TYPES[operand]], DataType[_TYPES[result]]
    loaded = tuple(DataType[_TYPES[t]] for t in inputs)
    if params.exchange_operands and types[1].bytes != 2:
        params = replace(params, use_smem_epilogue=False)  # stmatrix transposes 16 bits
    if types[1].bytes != 2 or reductions.results or loaded:
        params = replace(params, deferred_stores=False)  # nobody holds any of these
    reductions = reductions.exchanged if params.exchange_operands else reductions
    stage, epilogue = shared_bytes(params, *types, inputs=loaded, reductions=reductions)
    options = params.circular_buffer_options
    fit = (HOPPER.shared_bytes - BARRIER_BYTES - epilogue) // stage
    stages = min(fit, options.smem_circular_buffer_stage)
    return replace(
        params, circular_buffer_options=replace(options, smem_circular_buffer_stage=stages)
    )
