"""Schedules by hand, unlike the built-in ones: each runs right, or is refused for what it means."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.epilogues import RESIDUAL
from tests.legality.agreement import outcome
from tests.legality.builder import P, matmul, unscheduled
from tests.legality.by_hand.batches import BATCH, BATCHES
from tests.legality.by_hand.parts import (
    PARTS,
    RING,
    SCHEDULED,
    SHIFTED,
    apart,
    fragments,
    of_computed,
    operand_shifted,
)
from tests.legality.by_hand.results import RESULTS, residual_of_whole_tiles
from tests.legality.by_hand.roles import ROLES
from tests.legality.by_hand.steps import STEPS
from tests.legality.by_hand.tiles import TILES
from tests.legality.draws import made
from tests.legality.machine import compiled
from tests.legality.shape import shape
from tests.schedules import SCHEDULES, definition
from tests.tiers import in_tiers
from wsched.fusion import Fusion, ParallelType
from wsched.fusion.primitive_call import PrimitiveCall
from wsched.schedule.loops import side_by_side
from wsched.schedule.matmul.scheduler import schedule_matmul

MADE = {make.__name__: make for make in (*TILES, *ROLES, *RESULTS, *STEPS, *BATCHES, *PARTS)}

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
    "shares_of_each_matrix", "split_k_in_two_levels", "steps_of_tiles_in_threes", "three_in_turns",
    "turns_along_a_row", "turns_in_shares", "two_products",
}  # fmt: skip
"""Of each kind, the cheaper ones."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", in_tiers(RUN, QUICK))
def test_runs_right(name: str) -> None:
    said = outcome(MADE[name]())
    assert (said.fault, said.why) == (None, "")
    assert said.legal and said.ran


@pytest.mark.sampled
@pytest.mark.parametrize("make", [*STEPS, *BATCHES, residual_of_whole_tiles])
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
    said = outcome(made(left, unscheduled(SCHEDULED[operand_shifted], by_calls=True)))
    assert (said.fault, said.legal, said.ran) == (None, True, True)


def test_columns_of_a_part_on_ctas_along_z() -> None:
    """Each CTA along z would store a chunk of what all of them have summed up: nobody starts them
    for that.
    """
    m = matmul(by_tma=False)
    held, after = apart(m)
    m.tile(64, 32, 32)
    m.deal()
    m.steps("tile k")
    m.stage(3, 1)
    m.order((m.acc,), "cta tile")
    m.wgmma()
    m.split((*held, *after), "Ni", 16, "chunk Ni")
    m.run(after, "chunk", P.BIDz)
    fragments(m, held, "cta tile m64 chunk")
    fragments(m, after, "cta tile m64 chunk")
    m.s.circular_buffer(held[-1], 2, 1, RING)
    m.s.inline_at(m.acc, "tile")
    said = outcome(m.s.fusion)
    assert said.legal and said.unsupported
    assert said.why.startswith("loop chunk 2 [BIDz] of T10 is not supported; supported: on BIDz a")


@pytest.mark.slow
def test_levels_of_tiles_that_one_part_makes_and_merges_again() -> None:
    """What is multiplied counts tiles in fours, what is stored for it does not: the same steps."""
    m = of_computed(SHIFTED)
    m.tile(128, 32, 64)
    m.deal("No Mo")
    multiplied = (m.loads[1], *m.compute)
    m.split(multiplied, "tile", 4, "to ti")
    m.merge(multiplied, "to ti", "tile")
    m.steps("tile k")
    m.stage(2, 1)
    m.order(m.compute, "cta tile")
    m.fragments("tile", 16)
    m.inline("tile")
    fragments(m, m.rings, "cta tile k m64")
    m.s.circular_buffer(m.rings[-1], 2, 1, RING)
    said = outcome(m.s.fusion)
    assert (said.fault, said.why) == (None, "")
    assert said.legal and said.ran


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_for_what_it_means(name: str) -> None:
    said = outcome(MADE[name]())
    assert said.refused == REFUSED[name]
    assert said.oracle is not None and said.oracle.why is not None


BUILT_IN = {
    "no_chunks": "coop_128x64",  # whose 64 columns are one chunk
    "shares_of_steps": "stream_k_256",
    "three_in_turns": "pingpong_64x128",  # two in turns
}
"""Of the form that a schedule of parameters has, with other numbers."""


@pytest.mark.slow
def test_they_are_unlike_the_built_in_ones() -> None:
    """With numbers and names masked, so that another tile or another number of stages is no other
    form.
    """
    forms: dict[tuple[str, ...], set[str]] = {}
    for text in (definition(), definition(result="f32"), RESIDUAL, BATCH):
        of = unscheduled(text)
        for name, params in SCHEDULES.items():
            with suppress(ScheduleError, UnsupportedError):
                forms.setdefault(shape(schedule_matmul(of, params)), set()).add(name)
    assert len(forms) >= len(SCHEDULES)
    by_hand = {name: shape(make()) for name, make in MADE.items()}
    assert len(set(by_hand.values())) == len(MADE)
    like = {name: forms[form] for name, form in by_hand.items() if form in forms}
    assert set(like) == set(BUILT_IN)
    assert all(name in like[by_hand] for by_hand, name in BUILT_IN.items())


@pytest.mark.slow
def test_they_are_as_many_as_they_should_be() -> None:
    assert len(MADE) >= 30 and len(set(RUN) - set(BUILT_IN)) >= 24
    assert len({side_by_side(make()) for make in MADE.values()}) == len(MADE)
    assert all(len(inspect.getsource(make).splitlines()) <= 25 for make in MADE.values())
