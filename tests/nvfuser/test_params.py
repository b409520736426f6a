"""wsched's parameters as nvFuser's and back: every field, every refusal."""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.errors import UnsupportedError
from tests.nvfuser.cases import COOPERATIVE, PING_PONG, REFUSED_FIELDS, ROUND_TRIPS, buffered, tiled
from wsched.nvfuser.params import (
    TABLE,
    from_fields,
    from_nvfuser,
    read_fields,
    to_fields,
    write_fields,
)
from wsched.schedule.matmul.params import (
    BufferingLoopLevel,
    CachePolicies,
    CachePolicy,
    ClusterDims,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaArch,
    MmaMacro,
    ThreadLoads,
    TileRasterizationOrder,
    TilingStrategy,
)

THEIRS = {
    "async_gmem_load_operands", "buffering_loop_level", "circular_buffer_options",
    "circular_buffering_strategy", "cluster_dims", "cparams", "cta_order",
    "grid_traversal_factor", "lparams", "mma_macro", "promote_prologue_smem_reuse",
    "scheduler_type", "splitk_factor", "supported_vec_size", "tile_sizes", "tiling_strategy",
    "use_ldst_matrix", "use_smem_epilogue",
}  # fmt: skip
"""Attributes of nvfuser_direct.MatmulParams but for the method ``hash``."""


@pytest.fixture(scope="module")
def nvf() -> Any:
    return pytest.importorskip("nvfuser_direct")


def test_the_table_has_every_field_once() -> None:
    ours = [rule.ours for rule in TABLE if rule.ours]
    theirs = [rule.theirs for rule in TABLE if rule.theirs]
    assert sorted(ours) == sorted(f.name for f in fields(MatmulParams))
    assert sorted(theirs) == sorted(THEIRS)
    assert all(rule.why for rule in TABLE if not (rule.ours and rule.theirs))


def test_nvfuser_has_these_fields(nvf: Any) -> None:
    assert {n for n in dir(nvf.MatmulParams) if n[0] != "_"} - {"hash"} == THEIRS


def test_to_fields() -> None:
    order = TileRasterizationOrder.ColumnMajor
    params = replace(
        COOPERATIVE, cta_order=order, grid_traversal_factor=(8, 1), cluster_dims=ClusterDims(2, 1)
    )
    assert to_fields(params) == {
        "tiling_strategy": "distribute_tiles_across_sms",
        "buffering_loop_level": "cta_tiles",
        "circular_buffering_strategy": "warp_specialized",
        "cta_order": "column_major",
        "circular_buffer_options": [True, False, 3, 1],
        "cta_tile": [128, 256, 64],
        "warp_tile": [64, 256, 64],
        "mma_macro": [64, 256, 16],
        "grid_traversal_factor": [8, 1],
        "use_smem_epilogue": True,
        "use_ldst_matrix": True,
        "splitk_factor": 1,
        "cluster_dims": [2, 1],
        "promote_prologue_smem_reuse": True,
        "async_gmem_load_operands": True,
    }


def test_ping_pong_tiles_are_a_warpgroups() -> None:
    assert PING_PONG.tile_sizes.cta_tile == GemmTile(256, 128, 64)
    assert to_fields(PING_PONG)["cta_tile"] == [128, 128, 64]


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_round_trip(name: str) -> None:
    params = ROUND_TRIPS[name]
    assert from_fields(to_fields(params), base=params) == params


FIXED = ("promote_prologue_smem_reuse",)
"""Fields that have one value in what nvFuser takes."""


def far_from(params: MatmulParams) -> MatmulParams:
    """Parameters that agree with others in nothing that nvFuser has a field for."""
    cooperative = params.buffering_loop_level is BufferingLoopLevel.CTATiles
    width = next(n for n in (96, 112) if n != params.mma_macro.n)
    buffering, order, tiling = (
        next(x for x in type(value) if x is not value)
        for value in (params.circular_buffering_strategy, params.cta_order, params.tiling_strategy)
    )
    return replace(
        buffered(tiled(128, width, 32, 2, 6, ping_pong=cooperative), 6, 3),
        tiling_strategy=tiling,
        circular_buffering_strategy=buffering,
        cta_order=order,
        grid_traversal_factor=(params.grid_traversal_factor[0] + 1, 2),
        use_smem_epilogue=not params.use_smem_epilogue,
        use_ldst_matrix=not params.use_ldst_matrix,
        splitk_factor=params.splitk_factor + 1,
        cluster_dims=ClusterDims(params.cluster_dims.m + 1, 3),
        wgmma_in_flight=params.wgmma_in_flight + 1,
    )


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_nothing_that_nvfuser_has_comes_from_the_base(name: str) -> None:
    params = ROUND_TRIPS[name]
    base, theirs = far_from(params), {rule.ours for rule in TABLE if rule.ours and rule.theirs}
    back = from_fields(to_fields(params), base=base)
    for field in (theirs | {"wgmma_in_flight"}) - {"supported_vec_size", *FIXED}:
        assert getattr(back, field) == getattr(params, field) != getattr(base, field), field


schedules = st.builds(
    lambda tile, groups, ping_pong, stages, gap, cluster, order, factor, stored: replace(
        buffered(tiled(*tile, 2 if ping_pong else groups, 3, ping_pong), max(stages, gap), gap),
        cluster_dims=ClusterDims(*cluster),
        cta_order=order,
        grid_traversal_factor=factor,
        use_smem_epilogue=stored,
    ),
    st.tuples(st.just(192), st.sampled_from(range(8, 257, 8)), st.sampled_from((32, 64, 128))),
    st.sampled_from((1, 3)),
    st.booleans(),
    st.integers(2, 8),
    st.integers(1, 4),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.sampled_from(TileRasterizationOrder),
    st.sampled_from(((1, 1), (2, 1), (8, 1), (16, 8))),
    st.booleans(),
)


@given(schedules)
def test_round_trips(params: MatmulParams) -> None:
    given_fields = to_fields(params)
    back = from_fields(given_fields, base=params)
    assert (back, to_fields(back)) == (params, given_fields)


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_live_round_trip(nvf: Any, name: str) -> None:
    """Through nvFuser's own types; only its MatmulParams itself needs a device."""
    live, wanted = SimpleNamespace(), to_fields(ROUND_TRIPS[name])
    write_fields(nvf, live, wanted)
    assert read_fields(live) == wanted
    assert from_nvfuser(live, ROUND_TRIPS[name]) == ROUND_TRIPS[name]


SUFFIX = " by nvFuser's matmul scheduler is not supported; supported: "
ONE_TILE = replace(COOPERATIVE, tiling_strategy=TilingStrategy.OneTilePerCTA)
REFUSED = [
    (
        replace(COOPERATIVE, tiling_strategy=TilingStrategy.DistributeStagesAcrossSMs),
        "tiling_strategy=DistributeStagesAcrossSMs",
        "OneTilePerCTA, DistributeTilesAcrossSMs",
    ),
    (
        replace(COOPERATIVE, splitk_factor=2),
        "splitk_factor=2 with tiling_strategy=DistributeTilesAcrossSMs",
        "split-K with OneTilePerCTA",
    ),
    (
        replace(PING_PONG, tiling_strategy=TilingStrategy.OneTilePerCTA),
        "buffering_loop_level=WarpTiles with tiling_strategy=OneTilePerCTA",
        "WarpTiles with DistributeTilesAcrossSMs: it has no second tile to alternate with",
    ),
    (
        replace(
            PING_PONG,
            circular_buffering_strategy=ROUND_TRIPS["pipelined"].circular_buffering_strategy,
        ),
        "buffering_loop_level=WarpTiles with circular_buffering_strategy=Pipelined",
        "WarpTiles with WarpSpecialized",
    ),
    (
        replace(ONE_TILE, cluster_dims=ClusterDims(2, 1)),
        "cluster_dims=(2, 1) with OneTilePerCTA and cta_order=RowMajor",
        "ColumnMajor: RowMajor swaps M and N of the grid, but not of the cluster",
    ),
    (
        replace(COOPERATIVE, tile_sizes=MatMulTileOptions(warp_tile=GemmTile(0, 256, 64))),
        "a CTA tile 128x256x64 of warp tiles 0x256x64 with Hopper_64_256_16",
        "positive sizes",
    ),
    (
        tiled(64, 128, 64, 3, 4, ping_pong=True),
        "ping-pong over 3 warpgroups",
        "two warpgroups, a constant of it",
    ),
    (
        replace(COOPERATIVE, tile_sizes=MatMulTileOptions(warp_tile=GemmTile(64, 256, 32))),
        "a warp tile 64x256x32 of the CTA tile 128x256x64",
        "warp tiles that divide M and N of the CTA tile and have its K",
    ),
    (
        replace(COOPERATIVE, mma_macro=replace(COOPERATIVE.mma_macro, n=96)),
        "a warp tile 64x256x64 with Hopper_64_96_16",
        "warp tiles that the macro divides",
    ),
    (
        replace(
            COOPERATIVE,
            tile_sizes=MatMulTileOptions(GemmTile(64, 192, 64), GemmTile(64, 96, 64)),
            mma_macro=replace(COOPERATIVE.mma_macro, n=96),
        ),
        "use_smem_epilogue=True with warp tiles of 96 of 192 columns",
        "multiples of 64 columns, or one warp tile along N (nvFuser issue 3602)",
    ),
    (
        replace(
            COOPERATIVE,
            use_smem_epilogue=False,
            supported_vec_size=replace(COOPERATIVE.supported_vec_size, epilogue=1),
        ),
        "use_smem_epilogue=False with supported_vec_size.epilogue=1",
        "2: its threads store two elements at once",
    ),
    (buffered(COOPERATIVE, 9), "smem_circular_buffer_stage=9", "at most 8 stages"),
    (buffered(COOPERATIVE, 3, 4), "smem_circular_buffer_prefetch_gap=4", "1 to 3, the stages"),
    (
        replace(COOPERATIVE, wgmma_in_flight=1),
        "wgmma_in_flight=1 with smem_circular_buffer_prefetch_gap=1",
        "wgmma_in_flight=0: its kernels keep as many groups in flight as the gap less one",
    ),
    (
        replace(
            COOPERATIVE,
            circular_buffer_options=replace(
                COOPERATIVE.circular_buffer_options, circular_buffer_smem_read=True
            ),
        ),
        "circular_buffer_smem_read=True",
        "False: wgmma reads shared memory",
    ),
    (
        replace(
            COOPERATIVE,
            circular_buffer_options=replace(
                COOPERATIVE.circular_buffer_options, circular_buffer_smem_write=False
            ),
        ),
        "circular_buffer_smem_write=False",
        "True",
    ),
    (
        replace(COOPERATIVE, num_registers=(24, 240)),
        "num_registers=(24, 240)",
        '(40, 232), a constant of it; or "auto"',
    ),
    (
        replace(tiled(64, 96, 128, 1, 4), num_registers=(40, 232)),
        "num_registers=(40, 232)",
        'none but with two compute warpgroups; or "auto"',
    ),
    (
        replace(COOPERATIVE, cache_policies=CachePolicies(a=CachePolicy.EvictFirst)),
        "cache_policies=(a EvictFirst, b EvictNormal, d EvictNormal)",
        "EvictNormal",
    ),
    (
        replace(COOPERATIVE, thread_loads=ThreadLoads(2, 0)),
        "thread_loads=a 2 bytes, 1 warpgroup",
        "none: its operands are loaded by TMA",
    ),
    (
        replace(COOPERATIVE, exchange_operands=True, use_smem_epilogue=False),
        "exchange_operands=True",
        "False: its tiles are those of the product as it is written",
    ),
    (
        replace(COOPERATIVE, promote_prologue_smem_reuse=True),
        "promote_prologue_smem_reuse=True",
        "False: it sets that itself where it is needed",
    ),
    (
        replace(COOPERATIVE, grid_traversal_factor=(1, 2)),
        "grid_traversal_factor=(1, 2)",
        "(1, 1), (G, 1), (G, H) from 2 on",
    ),
    (
        replace(COOPERATIVE, mma_macro=MmaMacro(64, 64, 16, MmaArch.Blackwell1CTA)),
        "the macro Blackwell1CTA_64_64_16",
        "those of Hopper: its scheduler for Blackwell is another",
    ),
]


@pytest.mark.parametrize(("params", "what", "supported"), REFUSED, ids=[r[1] for r in REFUSED])
def test_refused(params: MatmulParams, what: str, supported: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        to_fields(params)
    assert str(error.value) == what + SUFFIX + supported


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"async_gmem_load_operands": False},
            "async_gmem_load_operands=False is not supported; supported: True: nvFuser's Hopper "
            "scheduler loads operands by TMA",
        ),
        (
            {"promote_prologue_smem_reuse": False},
            "promote_prologue_smem_reuse=False with use_smem_epilogue=True is not supported; "
            "supported: the same value for both, as nvFuser's heuristic sets them on Hopper",
        ),
        (
            {"buffering_loop_level": "warp_tiles"},
            "ping-pong with a CTA tile [128, 256, 64] that is not the warp tile [64, 256, 64] is "
            "not supported; supported: equal tiles: nvFuser's ping-pong CTA tile is that of one "
            "warpgroup",
        ),
    ],
)
def test_fields_without_a_word(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        from_fields({**to_fields(COOPERATIVE), **changes})
    assert str(error.value) == text


def test_a_size_of_one_is_positive() -> None:
    """It is refused for what it does not divide."""
    tile = MatMulTileOptions(warp_tile=GemmTile(1, 256, 64))
    with pytest.raises(UnsupportedError) as error:
        to_fields(replace(COOPERATIVE, tile_sizes=tile))
    assert "positive" not in str(error.value)


@pytest.mark.parametrize("name", REFUSED_FIELDS)
def test_what_nvfuser_refuses_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError):
        from_fields(REFUSED_FIELDS[name])
