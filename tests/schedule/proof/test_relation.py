"""What a relation says of itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.ground.expr import evaluate
from tests.legality.by_hand.roles import three_in_turns, turns_on_two_axes
from tests.legality.by_hand.tiles import k_in_two_levels, tile_loop_in_two_levels
from tests.schedule.fusions import COOPERATIVE, linear
from tests.schedule.relation import load_relation
from wsched.fusion import Fusion, ParallelType
from wsched.schedule import schedule_matmul

Y, Z = ParallelType.TIDy, ParallelType.TIDz

TURNS: dict[str, tuple[Callable[[], Fusion], tuple[ParallelType, ...]]] = {
    "none": (lambda: schedule_matmul(linear(), COOPERATIVE), ()),
    "one axis": (three_in_turns, (Y,)),
    "two axes": (turns_on_two_axes, (Y, Z)),
}


@pytest.mark.parametrize("name", TURNS)
def test_the_loops_that_warpgroups_take_turns_in(name: str) -> None:
    """On two axes both are: their product is how many take turns."""
    make, axes = TURNS[name]
    r = load_relation(make())
    assert {s.domain.parallel for s in r.roles} == set(axes)
    assert r.cooperative == (not axes)
    turns = 1
    for s in r.roles:
        turns *= evaluate(s.domain.extent, {})
    assert turns == r.warpgroups.teams


@pytest.mark.parametrize("make", [k_in_two_levels, tile_loop_in_two_levels])
def test_which_digits_choose_the_tile(make: Callable[[], Fusion]) -> None:
    r = load_relation(make())
    tile = [s.domain.label for s in r.digits[: r.outside]]
    steps = [s.domain.label for s in r.digits[r.outside :]]
    assert all("t" in label for label in tile) and all("k" in label for label in steps)
    assert r.steps == r.digits


def test_a_loop_that_ends_early_is_trimmed() -> None:
    r = load_relation(tile_loop_in_two_levels())
    assert [(s.domain.label, s.trimmed) for s in r.digits] == [
        ("three", True), ("tile", True), ("k", False),
    ]  # fmt: skip
    assert r.tail is not None and r.load_stop == r.tail.load_stop
    assert r.most_steps == r.load_stop
    assert str(r).splitlines()[-1] == f"  while {r.tail.index} < {r.tail.extent}"
