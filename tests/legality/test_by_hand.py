"""Schedules by hand, unlike the built-in ones: each runs right, or is refused for what it means."""

from __future__ import annotations

import inspect

import pytest

from tests.legality.agreement import outcome
from tests.legality.by_hand.parts import PARTS
from tests.legality.by_hand.results import RESULTS
from tests.legality.by_hand.roles import ROLES
from tests.legality.by_hand.tiles import TILES
from wsched.schedule.loops import side_by_side

MADE = {make.__name__: make for make in (*TILES, *ROLES, *RESULTS, *PARTS)}

REFUSED = {
    "a_load_warp_for_each_operand": "ring",
    "one_store_for_two_groups": "place",
    "k_outside_tiles": "storage",
}
"""By which rule."""

RUN = sorted(set(MADE) - set(REFUSED))


@pytest.mark.parametrize("name", RUN)
def test_runs_right(name: str) -> None:
    said = outcome(MADE[name]())
    assert (said.fault, said.why) == (None, "")
    assert said.legal and said.ran


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_for_what_it_means(name: str) -> None:
    said = outcome(MADE[name]())
    assert said.refused == REFUSED[name]
    assert said.oracle is not None and said.oracle.why is not None


def test_they_are_as_many_as_they_should_be() -> None:
    assert len(MADE) >= 30 and len(RUN) >= 24
    assert len({side_by_side(make()) for make in MADE.values()}) == len(MADE)
    assert all(len(inspect.getsource(make).splitlines()) <= 25 for make in MADE.values())
