"""Schedules by hand, unlike the built-in ones: each runs right, or is refused for what it means."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from tests.legality.agreement import outcome
from tests.legality.by_hand.parts import PARTS, SCHEDULED, operand_shifted, unscheduled
from tests.legality.by_hand.results import RESULTS, residual_of_whole_tiles
from tests.legality.by_hand.roles import ROLES
from tests.legality.by_hand.steps import STEPS
from tests.legality.by_hand.tiles import TILES
from tests.legality.draws import made
from tests.legality.machine import compiled
from tests.tiers import in_tiers
from wsched.fusion import Fusion, ParallelType
from wsched.fusion.primitive_call import PrimitiveCall
from wsched.schedule.loops import side_by_side

MADE = {make.__name__: make for make in (*TILES, *ROLES, *RESULTS, *STEPS, *PARTS)}

REFUSED = {
    "a_load_warp_for_each_operand": "ring",
    "one_store_for_two_groups": "place",
    "k_outside_tiles": "storage",
}
"""By which rule."""

RUN = sorted(set(MADE) - set(REFUSED))

QUICK = {
    "a_row_of_tiles_each", "chunks_of_rows", "column_groups", "columns_without_load_warps",
    "epilogue_apart", "epilogue_of_one_block", "fp32_from_registers", "groups_on_tidz",
    "halves_of_columns", "interleaved_split_k", "operand_cast", "panels", "residual_by_ring",
    "residual_of_whole_tiles", "rows_from_the_queue", "rows_on_x_columns_on_y",
    "split_k_in_two_levels", "steps_of_tiles_in_threes", "three_in_turns", "turns_along_a_row",
    "turns_in_shares", "two_products",
}  # fmt: skip
"""Of each kind, the cheaper ones."""


@pytest.mark.parametrize("name", in_tiers(RUN, QUICK))
def test_runs_right(name: str) -> None:
    said = outcome(MADE[name]())
    assert (said.fault, said.why) == (None, "")
    assert said.legal and said.ran


@pytest.mark.parametrize("make", [*STEPS, residual_of_whole_tiles])
def test_the_cubin_spills_nothing(make: Callable[[], Fusion]) -> None:
    cubin = compile_cubin(emit_cuda(compiled(make())))
    assert read_resources(cubin, "drawn").clean


@pytest.mark.slow
def test_a_computed_operand_is_stored_in_pieces_of_its_stage() -> None:
    """A loop over the rows of a fragment in place of it: threads fill the stage in pieces."""
    rows = [
        PrimitiveCall("parallelize", (t, 5, ParallelType.Mma))
        for t in ("T11", "T3", "T4", "T12", "T5")
    ]
    history = operand_shifted().history
    assert all(r in history for r in rows)
    left = tuple(r for r in history if r not in rows)
    said = outcome(made(left, unscheduled(SCHEDULED[operand_shifted])))
    assert (said.fault, said.legal, said.ran) == (None, True, True)


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_for_what_it_means(name: str) -> None:
    said = outcome(MADE[name]())
    assert said.refused == REFUSED[name]
    assert said.oracle is not None and said.oracle.why is not None


def test_they_are_as_many_as_they_should_be() -> None:
    assert len(MADE) >= 30 and len(RUN) >= 24
    assert len({side_by_side(make()) for make in MADE.values()}) == len(MADE)
    assert all(len(inspect.getsource(make).splitlines()) <= 25 for make in MADE.values())
