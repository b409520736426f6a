"""Time lines of schedules by hand, on the machine: each part says what it does for which tile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lowering.ground.expr import evaluate
from lowering.machine import run_kernel
from lowering.nest.lower import lower
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from tests.legality.by_hand import parts, tiles
from tests.legality.machine import NUMPY, Problem
from tests.legality.oracle import tile_of
from wsched.fusion import Fusion
from wsched.schedule.plan import make_plan
from wsched.trace.spans import Span
from wsched.trace.stamps import decode

SLOTS = 256


def spans(make: Callable[[], Fusion], count: int) -> list[Span]:
    """Those of one CTA that has all ``count`` tiles, of two steps of k each."""
    fusion = make()
    options = LoweringOptions(epilogue_stages=1, trace_slots=SLOTS)
    kernel = run_passes(lower(make_plan(fusion), "traced", 2), options)
    m, n, k = tile_of(fusion)
    size = Problem(count * m, n, 2 * k, 1)
    extents = {"M": size.m, "N": size.n, "K": size.k}
    arrays = {
        b.tensor: np.ones([extents[x] for x in b.axes], NUMPY[b.dtype])
        for b in (*fusion.inputs, *fusion.outputs)
    }
    grid = evaluate(kernel.grid, extents | {"sms": 1})
    records = np.zeros((grid, kernel.threads // 32, 1 + SLOTS, 2), np.int64)
    arrays[kernel.traces[0].name] = records
    run_kernel(kernel, arrays, extents, grid, adversary="fair")
    trace = decode(kernel, records, on_machine=True)
    assert trace.dropped == 0
    return [s for s in trace.spans if s.cta == 0]


def events(found: list[Span], role: str) -> dict[str, list[int | None]]:
    """What the first warp of a role that does anything does, with the tiles."""
    mine = [s for s in found if s.role == role and s.name != "cta"]
    by_name: dict[str, list[int | None]] = {}
    for s in (s for s in mine if s.warp == mine[0].warp):
        by_name.setdefault(s.name, []).append(s.tile)
    return by_name


def test_an_operand_that_is_computed() -> None:
    """Its warps have the tiles of the product, though their own loops count steps of k."""
    found = spans(parts.operand_cast, 3)
    assert events(found, "transform") == {"transform": [0, 1, 2]}
    assert events(found, "load") == {"load": [0, 1, 2]}
    assert events(found, "compute") == {"main_loop": [0, 1, 2], "epilogue": [0, 1, 2]}


def test_an_epilogue_with_warps_of_its_own() -> None:
    """It waits for its stores within it; what the sums are written to the ring by is one, too."""
    found = spans(parts.epilogue_by_tma, 3)
    assert events(found, "compute") == {"main_loop": [0, 1, 2], "epilogue": [0, 1, 2]}
    mine = events(found, "epilogue")
    assert mine["epilogue"] == [0, 1, 2] and mine["drain"] == [None]
    assert {*mine["store_wait"]} == {0, 1, 2} and {*mine} == {"epilogue", "store_wait", "drain"}
    for s in (s for s in found if s.name == "store_wait"):
        (around,) = (
            e for e in found if (e.name, e.warp, e.tile) == ("epilogue", s.warp, s.tile)
        )  # fmt: skip
        assert around.begin < s.begin < s.end < around.end


def test_epilogues_in_turns() -> None:
    """A tile is one step of the ring, so each trip of the loop over tiles is an epilogue."""
    mine = events(spans(parts.epilogue_in_turns, 3), "epilogue")
    assert mine["epilogue"] == mine["turn"] == [0, 1, 2]


@pytest.mark.parametrize(
    "make", [tiles.k_in_two_levels, tiles.tile_loop_in_two_levels, tiles.k_in_twos_and_threes]
)
def test_loops_in_two_levels(make: Callable[[], Fusion]) -> None:
    """A tile is loaded once, however many loops count its steps, and has one number."""
    found = spans(make, 3)
    assert events(found, "load") == {"load": [0, 1, 2]}
    assert events(found, "compute")["main_loop"] == [0, 1, 2]
