"""Kernels with reductions through NVRTC, without a GPU: nothing spills."""

from __future__ import annotations

import pytest

from tests.lowering.cuda.opcodes import count_opcodes
from tests.reductions import ALL, Reduced, definition
from tests.schedules import SCHEDULES, for_result
from wsched.front.known import import_fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.reductions import Reductions

SUMS = (Reduced("sum", (0,)),)
"""What warpgroups side by side can have."""

WAYS = {
    "coop_128x256": ALL[:3], "coop_256x128": ALL[:3], "coop_3_groups": ALL[:2],
    "across_128x256": SUMS, "pipelined": ALL[:3], "pingpong_64x256": ALL[:3],
    "pingpong_128x128": ALL[:3], "dynamic": ALL[:2], "split_2": ALL[:2],
    "stream_k_pingpong": ALL[:2],
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


@pytest.mark.slow
def test_code() -> None:
    """Of 64 columns a warp stores a row, four of which are read; of 64 rows four lanes add up."""
    made = kernel("coop_128x256", (Reduced("sum", (0,)),))
    plain = kernel("coop_128x256", ())
    rows, none = (count_opcodes(k.dump("sass")) for k in (made, plain))
    print(rows - none)
