"""Tiles for a GPU that sums up in tensor memory: which are tried, and with what."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError
from lowering.target.ptx import WIDEST_SWIZZLE
from tests.grouped import grouped
from wsched.choose.gpus import GPUS
from wsched.choose.problem import Problem, demands
from wsched.choose.tensor_memory import COLUMNS, ROWS, tried_in_tensor_memory
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.fusion import DataType
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import MatmulParams, TilingStrategy
from wsched.schedule.matmul.tiles import LEAST_STAGES, MAX_STAGES

BF16, B200 = DataType.BFloat16, GPUS["B200"]
BARE = Problem(4096, 4096, 4096, BF16, (BF16,), 132).on(B200)
PROBLEMS = {
    "bare": BARE, "fp32 results": replace(BARE, results=(DataType.Float,) * 2),
    "a matrix": replace(BARE, inputs=(BF16,)), "fp8": replace(BARE, operand=DataType.Float8_e4m3fn),
}  # fmt: skip


def staged(params: MatmulParams, stages: int, inputs: int) -> MatmulParams:
    """The same with so many stages of the operands, and of what the epilogue reads."""
    options = replace(params.circular_buffer_options, smem_circular_buffer_stage=stages)
    return replace(params, circular_buffer_options=options, epilogue_input_stages=inputs)


def refused(problem: Problem, params: MatmulParams) -> bool:
    with suppress(ScheduleError):
        require_legal_for(demands(problem), params)
        return False
    return True


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_each_tile_has_as_many_stages_as_fit(problem: Problem) -> None:
    """The largest tile first; all are legal, and with another stage none."""
    found = list(tried_in_tensor_memory(problem))
    tiles = [(p.output_tile.m, p.output_tile.n) for p in found]
    assert len(tiles) > 10
    assert tiles == [(m, n) for m in ROWS for n in COLUMNS if (m, n) in tiles]
    for params in found:
        stages = params.circular_buffer_options.smem_circular_buffer_stage
        inputs = params.epilogue_input_stages
        assert not refused(problem, params)
        assert stages == MAX_STAGES or refused(problem, staged(params, stages + 1, inputs))


def test_where_tma_has_no_room_for_inputs_threads_load_them() -> None:
    """Where two stages of these leave too few of the operands; and all that TMA cannot load."""
    problem, ahead = PROBLEMS["a matrix"], dict[int, list[MatmulParams]]()
    for params in tried_in_tensor_memory(problem):
        ahead.setdefault(params.epilogue_input_stages, []).append(params)
    assert {*ahead} == {0, 2}
    assert all(refused(problem, staged(params, LEAST_STAGES, 2)) for params in ahead[0])
    unknown = tried_in_tensor_memory(replace(BARE, inputs=None))
    assert {p.epilogue_input_stages for p in unknown} == {0}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_what_they_have_in_common(problem: Problem) -> None:
    """Nobody holds sums, so registers are left to the compiler; a slice is as wide as a swizzle."""
    for p in tried_in_tensor_memory(problem):
        assert p.num_registers is None and p.use_smem_epilogue
        assert p.output_tile.k * problem.operand.bytes == WIDEST_SWIZZLE
        assert p.tiling_strategy is TilingStrategy.DistributeTilesAcrossSMs
        assert p.grid_traversal_factor == (8, 1)


def test_tiles_of_groups_are_dealt_in_the_order_of_a_queue() -> None:
    """Which there are is known at run time."""
    problem = Extents(1024, 512, 256, 8).problem(import_fusion(grouped()), 148, B200.target)
    found = [*tried_in_tensor_memory(problem)]
    assert found and {(p.tiling_strategy, p.grid_traversal_factor) for p in found} == {
        (TilingStrategy.DistributeTilesDynamically, (1, 1))
    }
