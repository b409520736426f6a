"""Kernels with reductions through NVRTC, without a GPU: nothing spills."""

from __future__ import annotations

import pytest

from tests.lowering.cuda.opcodes import count_opcodes
from tests.reductions import ALL, Reduced, definition
from tests.schedules import SCHEDULES, for_result
from wsched.bench.reductions import REDUCTIONS
from wsched.bench.reductions import definition as linear_with
from wsched.front.known import import_fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.params import GemmTile, MatmulParams
from wsched.schedule.matmul.reductions import Reductions
from wsched.schedule.matmul.tiles import tile_choice

SUMS = (Reduced("sum", (0,)),)
"""What warpgroups side by side can have."""

WAYS = {
    "coop_128x256": ALL[:3], "coop_256x128": ALL[:3], "coop_3_groups": ALL[:2],
    "across_128x256": SUMS, "pipelined": ALL[:3], "pingpong_64x256": ALL[:3],
    "pingpong_128x128": ALL[:3], "dynamic": ALL[:2], "split_2": ALL[:2],
    "stream_k_pingpong": ALL[:2], "exchanged_boxes": ALL, "exchanged_pingpong": ALL[:3],
    "exchanged_pipelined": ALL[:3], "exchanged_stream_k": ALL[:3],
}  # fmt: skip


def kernel(name: str, reduced: tuple[Reduced, ...]) -> CompiledFusion:
    fusion = import_fusion(definition(reduced))
    params = for_result(SCHEDULES[name], "bf16", reductions=Reductions.of(fusion))
    return compile_fusion(fusion, params)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", WAYS)
def test_nothing_spills(name: str) -> None:
    found = kernel(name, WAYS[name]).resources
    assert (found.spill_stores, found.spill_loads, found.stack, found.warnings) == (0, 0, 0, ())


WIDEST = ((True, 208), (True, 192), (False, 192))
"""Whether tiles are exchanged, and columns of 128 rows in turns that leave a reduction room."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("turned", "columns", "reduction"), [(*tile, r) for tile in WIDEST for r in REDUCTIONS]
)
def test_nothing_spills_of_what_is_made_of_sums(turned: bool, columns: int, reduction: str) -> None:
    fusion, base = import_fusion(linear_with(reduction)), MatmulParams(exchange_operands=turned)
    found = tile_choice(fusion, base, GemmTile(128, columns, 64), 2, True)
    assert found.legal and compile_fusion(fusion, found.params).resources.clean


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("reduction", "opcode", "least"),
    [("squares", "FMUL", 32), ("amax", "FMNMX", 32), ("columns", "STS", 1)],
)
def test_reductions_run_beside_stores(reduction: str, opcode: str, least: int) -> None:
    """Each chunk is reduced behind a store, none in front of the first or behind the last one.

    NVVM would move what has no effect but its value behind all stores, to where it is read.
    """
    fusion = import_fusion(linear_with(reduction))
    params = for_result(SCHEDULES["pingpong_128x128"], "bf16", reductions=Reductions.of(fusion))
    sass = compile_fusion(fusion, params).dump("sass")
    first, *between, last = [count_opcodes(part)[opcode] for part in sass.split("UTMASTG")]
    assert (first, last) == (0, 0) and len(between) == 3
    assert all(count >= least for count in between) and sum(between) >= 4 * least
