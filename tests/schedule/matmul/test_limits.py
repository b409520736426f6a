"""Legal parameters and the reasons against the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.epilogues import RESIDUAL
from tests.schedule.fusions import COOPERATIVE, PING_PONG, PIPELINED, linear
from wsched.fusion import DataType
from wsched.importer import build_fusion, record_text
from wsched.schedule import (
    CircularBufferingStrategy,
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaMacro,
    TilingStrategy,
)
from wsched.schedule.matmul.limits import check_params, chunk_columns, require_legal, shared_bytes

WARP = GemmTile(64, 128, 64)


def with_tiles(cta: GemmTile, warp: GemmTile, **changes: Any) -> MatmulParams:
    return replace(
        COOPERATIVE,
        tile_sizes=MatMulTileOptions(cta, warp),
        mma_macro=MmaMacro(n=warp.n),
        **changes,
    )


def tiles(m: int, n: int, groups: int, **changes: Any) -> MatmulParams:
    return with_tiles(GemmTile(m, n, 64), GemmTile(m // groups, n, 64), **changes)


@pytest.mark.parametrize(
    "params",
    [
        COOPERATIVE,
        PING_PONG,
        PIPELINED,
        tiles(128, 128, 2),
        tiles(256, 128, 2),
        tiles(256, 200, 2, num_registers=(40, 232)),
        tiles(256, 208, 2, num_registers=(24, 240)),
        tiles(192, 192, 3, num_registers=(32, 160)),
        tiles(64, 256, 1, num_registers=None),
        tiles(128, 8, 2),
    ],
)
def test_legal(params: MatmulParams) -> None:
    assert check_params(params) == []


@pytest.mark.parametrize(
    ("params", "reasons"),
    [
        (
            tiles(256, 256, 2),
            ["256 accumulators and 32 other registers a thread exceed 240"],
        ),
        (
            replace(COOPERATIVE, splitk_factor=0),
            ["splitk_factor=0: K has 1 to 65535 parts"],
        ),
        (
            replace(COOPERATIVE, splitk_factor=65536),
            ["splitk_factor=65536: K has 1 to 65535 parts"],
        ),
        (
            replace(
                COOPERATIVE,
                splitk_factor=2,
                tiling_strategy=TilingStrategy.DistributeStagesAcrossSMs,
            ),
            [
                "splitk_factor=2 with DistributeStagesAcrossSMs, which splits K where the shares "
                "of the CTAs end"
            ],
        ),
        (
            tiles(256, 208, 2, num_registers=(40, 232)),
            ["208 accumulators and 32 other registers a thread exceed 232"],
        ),
        (
            tiles(128, 128, 2, num_registers=(40, 2**70)),
            [
                f"num_registers=(40, {2**70}): setmaxnreg takes multiples of 8 from 24 to 240, "
                f"not {2**70}"
            ],
        ),
        (
            tiles(128, 128, 2, num_registers=(168, 232)),
            [
                "num_registers=(168, 232): 128 x 168 + 256 x 232 = 80896 registers, the CTA has "
                "384 x 168 = 64512"
            ],
        ),
        (
            tiles(192, 208, 3, num_registers=(32, 160)),
            [
                "Hopper_64_208_16 has 104 accumulators a thread, but 512 threads start with 128 "
                "registers, 32 of them for other use"
            ],
        ),
        (
            tiles(320, 128, 5),
            [
                "64 accumulators and 32 other registers a thread exceed 88",
                "Hopper_64_128_16 has 64 accumulators a thread, but 768 threads start with 80 "
                "registers, 32 of them for other use",
            ],
        ),
        (
            with_tiles(GemmTile(100, 256, 64), GemmTile(64, 256, 48)),
            [
                "the CTA tile's m 100 is no multiple of the warp tile's 64",
                "the CTA tile's k 64 is no multiple of the warp tile's 48",
            ],
        ),
        (with_tiles(GemmTile(0, 256, 64), GemmTile(64, 256, 64)), ["tiles have positive sizes"]),
        (
            replace(COOPERATIVE, mma_macro=MmaMacro(32, 250, 8)),
            [
                "Hopper_32_250_8: wgmma of 16-bit operands is m64 and k16",
                "Hopper_32_250_8: wgmma's n is a multiple of 8 from 8 to 256",
                "Hopper_32_250_8 does not span the warp tile's n 256",
            ],
        ),
        (
            with_tiles(GemmTile(128, 64, 40), GemmTile(64, 64, 40)),
            ["the tile's k 40 is no multiple of wgmma's 16"],
        ),
        (
            with_tiles(GemmTile(96, 64, 64), GemmTile(48, 64, 64)),
            ["the warp tile's m 48 is no multiple of wgmma's 64"],
        ),
        (
            replace(
                COOPERATIVE,
                circular_buffer_options=CircularBufferOptions(False, True, 1, 1),
                epilogue_stages=0,
                epilogue_input_stages=-1,
            ),
            [
                "circular_buffer_smem_write=False: TMA loads are circular-buffered",
                "circular_buffer_smem_read=True: wgmma reads shared memory itself",
                "smem_circular_buffer_prefetch_gap=1 leaves 0 wgmma groups in flight, "
                "wgmma_in_flight=1",
                "1 stages, no more than the 1 wgmma groups in flight",
                "epilogue_stages=0: a store needs a buffer",
                "epilogue_input_stages=-1: a ring has at least 1 stage, and 0 means none",
            ],
        ),
        (
            replace(
                PING_PONG,
                circular_buffering_strategy=CircularBufferingStrategy.Pipelined,
                circular_buffer_options=CircularBufferOptions(True, False, 1, 1),
                wgmma_in_flight=0,
                num_registers=None,
            ),
            [
                "1 stage with Pipelined loads is loaded where it is read, by all that multiply: "
                "warpgroups with tiles of their own (WarpTiles) share none",
            ],
        ),
        (
            with_tiles(GemmTile(256, 64, 64), GemmTile(32, 64, 64)),
            [
                "the warp tile's m 32 is no multiple of wgmma's 64",
                "9 warpgroups are 1152 threads, a CTA has 1024",
            ],
        ),
        (
            replace(COOPERATIVE, cluster_dims=ClusterDims(4, 4), grid_traversal_factor=(16, 8)),
            [
                "a cluster of 4 x 4 CTAs, at most 8 fit",
                "grid_traversal_factor=(16, 8): the order groups the slower dimension of the tile "
                "grid, (G, 1)",
            ],
        ),
        (
            replace(COOPERATIVE, grid_traversal_factor=(2**30, 1)),
            [
                "grid_traversal_factor=(1073741824, 1): at most 255, so that 1073741824 rows of "
                "tiles are fewer than 2**31",
            ],
        ),
        (
            replace(
                PING_PONG,
                tile_sizes=MatMulTileOptions(GemmTile(128, 128, 64), GemmTile(128, 128, 64)),
            ),
            [
                "buffering_loop_level=WarpTiles: one warp tile in the CTA tile, nobody to "
                "alternate with"
            ],
        ),
    ],
)
def test_illegal(params: MatmulParams, reasons: list[str]) -> None:
    assert check_params(params) == reasons


def test_reasons_are_reported_together() -> None:
    params = replace(tiles(256, 256, 2), cluster_dims=ClusterDims(0, 1))
    with pytest.raises(ScheduleError) as error:
        require_legal(linear(), params)
    assert str(error.value) == (
        "ScheduleError[params]: MatmulParams(cta_tile=256x256x64, warp_tile=128x256x64, ...): "
        "256 accumulators and 32 other registers a thread exceed 240; "
        "a cluster of 0 x 1 CTAs, at most 8 fit"
    )


def test_n_of_an_n_major_operand() -> None:
    params = tiles(128, 72, 2, epilogue_stages=1)
    require_legal(linear(layout="nn"), params)
    require_legal(linear(layout="tt"), tiles(128, 80, 2, epilogue_stages=1))
    with pytest.raises(ScheduleError) as error:
        require_legal(linear(layout="tt"), params)
    assert str(error.value) == (
        "ScheduleError[params]: MatmulParams(cta_tile=128x72x64, warp_tile=64x72x64, ...): "
        "the tile's n 72 is no multiple of 16: an N-major operand is stored in swizzle spans of at "
        "least 32 bytes"
    )


def test_shared_memory() -> None:
    assert shared_bytes(COOPERATIVE, DataType.BFloat16, DataType.BFloat16) == (48 * 1024, 32 * 1024)
    options = CircularBufferOptions(smem_circular_buffer_stage=5)
    with pytest.raises(ScheduleError) as error:
        require_legal(linear(), replace(COOPERATIVE, circular_buffer_options=options))
    assert str(error.value) == (
        "ScheduleError[smem]: smem_circular_buffer_stage=5: 5 stages of 48 KiB + epilogue 32 KiB + "
        "barriers 1 KiB = 273 KiB, limit 227 KiB\n"
        "  legal here: smem_circular_buffer_stage=1, smem_circular_buffer_prefetch_gap=1, "
        "wgmma_in_flight=0; smem_circular_buffer_stage=2; smem_circular_buffer_stage=3; "
        "smem_circular_buffer_stage=4"
    )


def test_shared_memory_of_matrices_that_the_epilogue_reads() -> None:
    """128 rows of 64 or, with fp32, of 32 columns in two stages; results have 32 KiB or half."""
    kinds = DataType.BFloat16, DataType.BFloat16
    kib = [
        shared_bytes(COOPERATIVE, *kinds, inputs=inputs)[1] // 1024
        for inputs in ((DataType.BFloat16,), (DataType.Float,), (DataType.BFloat16,) * 2)
    ]
    assert kib == [32 + 32, 16 + 32, 32 + 64]
    fusion = build_fusion(record_text(RESIDUAL))
    with pytest.raises(ScheduleError) as error:
        require_legal(fusion, COOPERATIVE)
    assert error.value.why == (
        "4 stages of 48 KiB + epilogue 64 KiB + barriers 1 KiB = 257 KiB, limit 227 KiB"
    )
    assert error.value.legal == (
        "smem_circular_buffer_stage=1, smem_circular_buffer_prefetch_gap=1, wgmma_in_flight=0",
        "smem_circular_buffer_stage=2",
        "smem_circular_buffer_stage=3",
        "epilogue_input_stages=0",
    )
    require_legal(fusion, replace(COOPERATIVE, epilogue_input_stages=0))


@pytest.mark.parametrize(
    ("n", "result", "columns"),
    [
        (256, DataType.BFloat16, 64),
        (256, DataType.Float, 32),
        (96, DataType.BFloat16, 32),
        (8, DataType.Float, 8),
    ],
)
def test_chunks_divide_the_tile(n: int, result: DataType, columns: int) -> None:
    assert chunk_columns(tiles(128, n, 2), result) == columns


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (
            replace(PIPELINED, tiling_strategy=TilingStrategy.DistributeStagesAcrossSMs),
            "circular_buffering_strategy=Pipelined with DistributeStagesAcrossSMs is not "
            "supported; supported: WarpSpecialized where CTAs add up parts of a tile",
        ),
        (
            replace(PIPELINED, tiling_strategy=TilingStrategy.DistributeTilesDynamically),
            "tiling_strategy=DistributeTilesDynamically with Pipelined loads is not supported; "
            "supported: WarpSpecialized: a warp of the load warpgroup fetches tiles",
        ),
        (
            replace(PIPELINED, splitk_factor=2),
            "circular_buffering_strategy=Pipelined with splitk_factor=2 is not supported; "
            "supported: WarpSpecialized where CTAs add up parts of a tile",
        ),
        (
            replace(COOPERATIVE, promote_prologue_smem_reuse=True),
            "promote_prologue_smem_reuse=True with DistributeTilesAcrossSMs is not supported; "
            "supported: OneTilePerCTA: stages of a persistent kernel hold the next tile while one "
            "is stored",
        ),
        (
            replace(PING_PONG, tiling_strategy=TilingStrategy.OneTilePerCTA),
            "buffering_loop_level=WarpTiles with tiling_strategy=OneTilePerCTA is not supported; "
            "supported: WarpTiles with DistributeTilesAcrossSMs: a warpgroup needs a second tile "
            "to overlap",
        ),
        (
            replace(PING_PONG, tile_sizes=MatMulTileOptions(GemmTile(192, 128, 64), WARP)),
            "ping-pong over 3 compute warpgroups is not supported; supported: two warpgroups",
        ),
    ],
)
def test_unsupported(params: MatmulParams, text: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        require_legal(linear(), params)
    assert str(error.value) == text
