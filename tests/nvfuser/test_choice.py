"""The schedule that wsched wants nvFuser's kernels to have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.target.targets import DEFAULT
from wsched.bench.problem import ANCHORS
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.nvfuser.choice import candidates, choose_params, ranked
from wsched.nvfuser.limits import most_stages, require_for, require_taken
from wsched.schedule.matmul.params import (
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    TileRasterizationOrder,
)

BF16, F32 = DataType.BFloat16, DataType.Float


def problem(m: int, n: int, k: int, *results: DataType) -> Problem:
    return Problem(m, n, k, BF16, results or (BF16,), 132)


@pytest.mark.parametrize("shape", ANCHORS, ids=str)
def test_large_problems_keep_nvfusers_tile(shape: object) -> None:
    """But for a short K, where nvFuser's epilogue is what the kernel waits for."""
    m, n, k = (getattr(shape, axis) for axis in "mnk")
    chosen = choose_params(problem(m, n, k))
    wanted = GemmTile(128, 128, 128) if k == 512 else GemmTile(128, 256, 64)
    assert (chosen.output_tile, chosen.cluster_dims) == (wanted, ClusterDims(1, 2))
    assert chosen.grid_traversal_factor == (8, 1)


def test_times_of_the_fit() -> None:
    """The two shapes that the constants are from: 29.4 and 39.5 us with the tile 128x256x64."""

    def us(m: int, n: int, k: int) -> float:
        found = ranked(problem(m, n, k))
        return next(
            us for us, p in found if p.output_tile == GemmTile(128, 256, 64) and p.warpgroups == 2
        )

    assert us(2048, 2048, 2048) == pytest.approx(29.4, rel=0.01)
    assert us(4096, 3584, 512) == pytest.approx(39.5, rel=0.01)


def test_the_order_divides_the_grid() -> None:
    """nvFuser rounds the grid up to the traversal and computes what it throws away."""
    rows, columns = TileRasterizationOrder.RowMajor, TileRasterizationOrder.ColumnMajor
    found = {
        m: (p.cta_order, p.grid_traversal_factor[0])
        for m in (128 * 16, 128 * 11, 128 * 7)
        for p in [choose_params(problem(m, 256 * 32, 8192))]
        if p.output_tile == GemmTile(128, 256, 64)
    }
    assert found == {2048: (rows, 8), 1408: (columns, 8), 896: (columns, 8)}


@given(
    st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 9000), st.sampled_from((BF16, F32))
)
def test_every_choice_can_be_taken(m: int, n: int, k: int, result: DataType) -> None:
    asked = problem(m, n, k, result)
    params = choose_params(asked)
    assert not params.ping_pong
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    assert 3 <= stages <= most_stages(params, BF16, (result,))
    if asked.unaligned is not None and n % 2:  # its threads store pairs
        with pytest.raises(UnsupportedError):
            require_taken(params)
        return
    require_taken(params)
    require_for(params, asked)
    tile, cluster = params.tile_sizes.cta_tile, params.cluster_dims
    grid = -(-m // tile.m) // cluster.m, -(-n // tile.n) // cluster.n
    slow = params.cta_order is TileRasterizationOrder.ColumnMajor
    assert grid[slow] % params.grid_traversal_factor[0] == 0


def test_stages() -> None:
    params = replace(MatmulParams(), use_smem_epilogue=True)
    assert most_stages(params, BF16, (BF16,)) == 3
    assert most_stages(params, BF16, (F32,)) == 2
    assert most_stages(params, BF16, (BF16,), (BF16,)) == 2
    assert most_stages(replace(params, use_smem_epilogue=False), BF16, (BF16,)) == 4


def test_stmatrix_wants_multiples_of_16() -> None:
    params = choose_params(problem(256, 256, 256))
    with pytest.raises(UnsupportedError) as error:
        require_for(params, problem(200, 256, 256))
    assert str(error.value) == (
        "use_ldst_matrix=True for a result of 200 x 256 by nvFuser's matmul scheduler is not "
        "supported; supported: sizes that are multiples of 16 (nvFuser issue 3963). "
        "Set use_ldst_matrix=False"
    )
    assert not choose_params(problem(200, 256, 256)).use_ldst_matrix


def test_no_tile_fits() -> None:
    results = (F32,) * 200
    with pytest.raises(UnsupportedError) as error:
        choose_params(problem(4096, 4096, 4096, *results))
    text = f"an epilogue with results {', '.join(['Float'] * 200)} is not supported"
    assert str(error.value) == f"{text}; supported: smaller ones"


def test_as_many_stages_as_fit_and_no_more() -> None:
    asked = problem(4096, 4096, 4096)

    def staged(stages: int) -> MatmulParams:
        options = CircularBufferOptions(smem_circular_buffer_stage=stages)
        return replace(MatmulParams(), circular_buffer_options=options)

    require_for(staged(3), asked)
    with pytest.raises(ScheduleError) as error:
        require_for(staged(4), asked)
    assert (error.value.rule, error.value.wrote) == ("smem", "smem_circular_buffer_stage=4")
    assert error.value.why == (
        "3 stages fit beside nvFuser's epilogue, which keeps a whole tile of each result"
    )


def test_stages_at_the_bound() -> None:
    """A stage of 48 KiB, an epilogue of 64 KiB and a KiB for barriers: the byte that is missing."""
    params = replace(MatmulParams(), use_smem_epilogue=True)
    for stages, missing in ((3, 0), (2, 1)):
        target = replace(DEFAULT, shared_bytes=(64 + 1 + 3 * 48) * 1024 - missing)
        assert most_stages(params, BF16, (BF16,), target=target) == stages
    small = replace(
        params,
        use_smem_epilogue=False,
        tile_sizes=MatMulTileOptions(GemmTile(64, 64, 64), GemmTile(64, 64, 64)),
    )
    assert most_stages(small, BF16, (BF16,)) == 8


def test_candidates_have_the_stages_of_their_tile() -> None:
    """All warpgroups share a tile there, so that it is the tile's bytes that count."""
    found = {(c.tile.m, c.tile.n, c.tile.k, c.tile.warpgroups): c.stages
             for c in candidates(BF16, (BF16,), (), smem_epilogue=True)}  # fmt: skip
    assert found[128, 256, 64, 2] == found[256, 128, 64, 2] == 3
    assert found[128, 192, 64, 2] == 4
    assert found[128, 128, 64, 2] == found[128, 128, 64, 1] == 6


def test_candidates_without_an_epilogue_in_shared_memory_have_more_stages() -> None:
    """A result of 128x256 in bf16 takes the room of a stage there, and of more in fp32."""

    def stages(result: DataType, smem_epilogue: bool) -> int:
        found = candidates(BF16, (result,), (), smem_epilogue)
        return next(
            (c.stages for c in found if (c.tile.m, c.tile.n, c.tile.k) == (128, 256, 64)), 0
        )

    assert [stages(BF16, smem) for smem in (True, False)] == [3, 4]
    assert [stages(F32, smem) for smem in (True, False)] == [0, 4]
