"""Loops that take no part in the load index: inside a stage, inside all that step, or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import LOADS, buffered, tiled
from tests.schedule.relation import load_relation
from wsched.fusion import ParallelType
from wsched.schedule import (
    Schedule,
)


def rows_outside_k(s: Schedule) -> None:
    """Each row of fragments goes over k again, while the loads come once."""
    s.parallelize("T4", 3, ParallelType.Serial)
    s.split("T4", 3, 64, labels=("m64", "M"))
    s.reorder("T4", {3: 2})
    for tv in LOADS:
        s.merge(tv, 1)


def other_ctas_beside(s: Schedule) -> None:
    """Tiles in pairs on BIDy, on one side only."""
    s.split("T4", 1, 2, labels=("tile", "pair"))
    s.parallelize("T4", 2, ParallelType.BIDy)
    for tv in LOADS:
        s.merge(tv, 1)


REFUSED: dict[str, Callable[[Schedule], None]] = {
    f.__name__: f for f in (rows_outside_k, other_ctas_beside)
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: object) -> None:
    s = tiled()
    REFUSED[name](s)
    with pytest.raises(ScheduleError) as error:
        load_relation(buffered(s))
    assert str(error.value) == golden


def test_a_box_is_taken_at_once() -> None:
    """Where its loops stand among those that step makes no difference."""
    found = []
    for move in ({}, {3: 2}):
        s = tiled()
        s.reorder("T4", move)
        for tv in LOADS:
            s.merge(tv, 1)
        found.append(load_relation(buffered(s)))
    assert found[0] == found[1]


def test_a_row_loop_with_loads_of_its_own() -> None:
    """Rows of half a tile are tiles: their loop steps, and the accumulator is for one of them."""
    s = tiled()
    for tv in (*LOADS, "T4"):
        s.parallelize(tv, 3, ParallelType.Serial)
        s.split(tv, 3, 64, labels=("row", "Mi"))
        s.reorder(tv, {3: 2})
    for tv in LOADS:
        s.parallelize(tv, 4, ParallelType.Bulk)
        s.merge(tv, 1)
        s.merge(tv, 1)
    r = load_relation(buffered(s))
    assert [s.domain.label for s in r.digits] == ["tile", "row", "k"]
    assert r.outside == 2
