"""What nvFuser is asked, behind the stand-in and by the tests of what it said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wsched.nvfuser.params import Fields, to_fields
from wsched.schedule.matmul.params import (
    CircularBufferingStrategy,
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    MatmulParams,
    TileRasterizationOrder,
    TilingStrategy,
)
from wsched.schedule.matmul.tiles import with_tile

__all__ = [
    "ASKED",
    "COOPERATIVE",
    "OVERRIDES",
    "PARITY",
    "PING_PONG",
    "REFUSED_FIELDS",
    "ROUND_TRIPS",
    "linear",
]  # fmt: skip


def buffered(params: MatmulParams, stages: int, gap: int = 1) -> MatmulParams:
    options = CircularBufferOptions(
        smem_circular_buffer_stage=stages, smem_circular_buffer_prefetch_gap=gap
    )
    return replace(params, circular_buffer_options=options, wgmma_in_flight=gap - 1)


def tiled(
    m: int, n: int, k: int, groups: int, stages: int, ping_pong: bool = False
) -> MatmulParams:
    return buffered(with_tile(MatmulParams(), GemmTile(m, n, k), groups, ping_pong), stages)


COOPERATIVE = tiled(128, 256, 64, 2, 3)
PING_PONG = tiled(128, 128, 64, 2, 5, ping_pong=True)

PARITY = {
    name: replace(params, num_registers=(40, 232), programmatic_dependent_launch=False)
    for name, params in (("cooperative", COOPERATIVE), ("ping-pong", PING_PONG))
}
"""The problems of the loop-nest comparison, as plain as both sides can have them."""

ROUND_TRIPS = {
    "cooperative": COOPERATIVE,
    "ping-pong": PING_PONG,
    "cluster 2x1": replace(COOPERATIVE, cluster_dims=ClusterDims(2, 1)),
    "columns, groups of 8": replace(
        COOPERATIVE, cta_order=TileRasterizationOrder.ColumnMajor, grid_traversal_factor=(8, 1)
    ),
    "two groups in flight": buffered(tiled(128, 128, 64, 2, 5), 5, 3),
    "one warpgroup": tiled(64, 96, 128, 1, 4),
    "three warpgroups": tiled(192, 128, 64, 3, 4),
    "tile per CTA": replace(COOPERATIVE, tiling_strategy=TilingStrategy.OneTilePerCTA),
    "split-K": replace(COOPERATIVE, tiling_strategy=TilingStrategy.OneTilePerCTA, splitk_factor=4),
    "pipelined": replace(
        COOPERATIVE,
        tiling_strategy=TilingStrategy.OneTilePerCTA,
        circular_buffering_strategy=CircularBufferingStrategy.Pipelined,
    ),
    "from registers": replace(COOPERATIVE, use_smem_epilogue=False),
    "without stmatrix": replace(COOPERATIVE, use_ldst_matrix=False),
}
"""Parameters that nvFuser takes."""


def _with(**changes: Any) -> Fields:
    return {**to_fields(COOPERATIVE), **changes}


REFUSED_FIELDS = {
    "stream-K": _with(tiling_strategy="distribute_stages_across_sms"),
    "persistent split-K": _with(splitk_factor=2),
    "ping-pong, CTA tile of two": {
        **to_fields(PING_PONG), "cta_tile": [256, 128, 64], "warp_tile": [128, 128, 64]
    },
    "warp tile of another K": _with(warp_tile=[64, 256, 32]),
    "no TMA": _with(async_gmem_load_operands=False),
    "gap 0": _with(circular_buffer_options=[True, False, 3, 0]),
    "gap 4 of 3": _with(circular_buffer_options=[True, False, 3, 4]),
    "traversal 0": _with(grid_traversal_factor=[0, 1]),
    "traversal (1, 2)": _with(grid_traversal_factor=[1, 2]),
    "macro 96 of 256": _with(mma_macro=[64, 96, 16]),
}  # fmt: skip
"""Fields that wsched refuses to hand over: what nvFuser says to them."""

OVERRIDES = (
    "", "tile=128", "cluster_m=1 cluster_n=1", "cluster_m=2 cluster_n=1", "load_stages=2",
    "prefetch_gap=2", "grid_swizzle_factor=4", "cta_order=1", "circular_buffer_smem_read=1",
    "splitk_factor=2", "splitk_factor=2 cluster_m=1 cluster_n=1", "load_stages=1",
)  # fmt: skip
"""What a plugin may say, in words of tests/nvfuser/standin/plugin.cpp."""

ASKED: tuple[tuple[Any, ...], ...] = (
    ((4096, 4096, 4096),),
    ((4096, 3584, 512),),
    ((512, 8192, 8192),),
    ((16, 4608, 3584),),
    ((200, 320, 256),),
    ((4000, 4000, 4000), "nt"),
    ((4096, 4096, 4096), "nn"),
    ((2048, 2048, 2048), "tn", "Float"),
)
"""(M, N, K), layout and type of the result of what wsched's plugin is asked."""


def linear(nvf: Any, layout: str = "tn", result: str = "") -> Any:
    """``linear`` of bf16 matrices, K-major or not, with a cast of the result."""
    with nvf.FusionDefinition() as fd:
        a, b = (
            fd.define_tensor(
                shape=[-1, -1],
                contiguity=[True, True],
                dtype=nvf.DataType.BFloat16,
                **({} if k_major else {"stride_order": [0, 1]}),
            )
            for k_major in (layout[0] == "t", layout[1] == "n")
        )
        d = fd.ops.linear(a, b)
        fd.add_output(fd.ops.cast(d, dtype=getattr(nvf.DataType, result)) if result else d)
    return fd
