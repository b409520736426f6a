"""What is reckoned for a GPU on which nothing was measured, by rates of data sheets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import UnsupportedError
from tests.grouped import grouped
from tests.pairs import V9
from tests.schedules import definition, in_tensor_memory
from wsched.choose.cost_model import cost
from wsched.choose.gpus import GPUS
from wsched.choose.heuristics import candidates, choose_params
from wsched.choose.memory import OTHER_BYTES_PER_US, least_bytes
from wsched.choose.problem import Problem
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.fusion import DataType
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import ClusterDims, TilingStrategy

B200 = GPUS["B200"]
BF16, HALF = DataType.BFloat16, DataType.Half
LARGE = Problem(256 * 148, 256, 2**16, BF16, (BF16,), 132).on(B200)
TILE = in_tensor_memory(256, 256)


def test_products_come_at_the_rate_of_the_data_sheet() -> None:
    """One tile for each multiprocessor: 2.25 PFLOP/s, dense."""
    found = cost(LARGE, TILE)
    assert not found.measured and found.step == "tensor cores"
    assert (found.tiles, found.rounds) == (148, 1)
    flops = 2 * LARGE.m * LARGE.n * LARGE.k
    assert flops / found.main_us == pytest.approx(2.25e9, rel=0.003)
    assert str(found).startswith(f"by data sheets, nothing was measured, {found.us:.1f} us: ")
    eight = replace(LARGE, operand=DataType.Float8_e4m3fn)
    assert cost(eight, TILE).main_us == pytest.approx(found.main_us / 2)


def test_loads_of_small_tiles_take_longer_than_products() -> None:
    found = cost(LARGE, in_tensor_memory(128, 64))
    assert found.step == "copies"
    assert found.main_us == pytest.approx(8 * 1024 * (128 + 64) * 64 * 2 / 64 / 1856)


def test_a_pair_loads_its_columns_once() -> None:
    """And takes tiles two at a time: of 148 below each other as many as there are pairs."""
    alone, pair = cost(LARGE, in_tensor_memory(128, 256)), cost(LARGE, V9)
    assert (alone.step, pair.step) == ("copies", "tensor cores")
    assert pair.main_us / alone.main_us == pytest.approx((128 + 128) / (128 + 256))
    assert (alone.tiles, pair.tiles, pair.rounds) == (296, 296, 2)
    odd = replace(LARGE, m=128 * 149)
    assert (cost(odd, V9).tiles, cost(odd, V9).rounds) == (150, 2)
    multicast = replace(in_tensor_memory(128, 256), cluster_dims=ClusterDims(2, 1))
    assert cost(LARGE, multicast).main_us == alone.main_us


def test_inputs_that_tma_loads_take_the_room_of_a_stage() -> None:
    """Stages of the operands and of the inputs; where too few would be left, threads read them."""
    wide = DataType.Float
    found = {}
    for inputs in ((), (BF16,), (wide, wide)):
        made = [c.params for c in candidates(replace(LARGE, inputs=inputs))]
        found[len(inputs)] = {
            str(p.output_tile): (p.circular_buffer_options.smem_circular_buffer_stage,
                                 p.epilogue_input_stages)
            for p in made if p.output_tile.n in (128, 256)
        }  # fmt: skip
    large, small = "256x128x64", "128x128x64"
    assert [(x[large], x[small]) for x in found.values()] == [
        ((3, 2), (6, 2)), ((3, 0), (5, 2)), ((3, 0), (4, 2)),
    ]  # fmt: skip


def test_no_kernel_is_faster_than_memory() -> None:
    few = Problem(128, 256 * 148, 2**14, BF16, (BF16,), 132).on(B200)
    best = candidates(few)[0]
    assert best.cost.us >= least_bytes(few) / OTHER_BYTES_PER_US[B200.name]
    assert best.cost.memory_us > 0


def test_an_accumulator_of_one_stage_hides_less() -> None:
    one, two = (cost(LARGE, in_tensor_memory(256, n)) for n in (256, 128))
    assert one.epilogue_us / one.rounds == 2 * two.epilogue_us / two.rounds


def test_candidates_are_legal_and_ordered() -> None:
    """And the choice is the first: the largest tile where products are what takes time."""
    found = candidates(LARGE)
    assert [c.cost.us for c in found] == sorted(c.cost.us for c in found)
    assert choose_params(LARGE) == found[0].params
    assert str(found[0].params.output_tile) == "256x256x64"
    fusion = import_fusion(definition())
    for c in (found[0], found[-1]):
        assert compile_fusion(fusion, c.params).kernel.target is B200.target


def test_tiles_of_groups_come_from_the_queue() -> None:
    fusion = import_fusion(grouped())
    problem = Extents(1024, 512, 256, 8).problem(fusion, 148, B200.target)
    assert problem.gpu == B200.name
    assert choose_params(problem).tiling_strategy is TilingStrategy.DistributeTilesDynamically


def test_what_none_is_built_for() -> None:
    with pytest.raises(UnsupportedError, match="2 products with accumulators in the tensor memory"):
        choose_params(replace(LARGE, b_count=2))
