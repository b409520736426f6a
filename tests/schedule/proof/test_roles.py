"""Warpgroups: who takes turns, who shares, and where the load warpgroup comes from."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import LOADS, buffered, split_tile, tiled
from tests.schedule.relation import load_relation
from wsched.fusion import Fusion, ParallelType, WarpSpecialized
from wsched.schedule import (
    Schedule,
)

DEALT = (*LOADS, "T4")


def steps_in_turn(s: Schedule) -> Fusion:
    """Warpgroups take every other k of all their tiles: the load order tile·k·group."""
    split_tile(s, DEALT, 2)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1, 3)
        s.merge(tv, 1, 2)
    return buffered(s)


def halves_in_turn(s: Schedule) -> Fusion:
    """The first warpgroup takes the first half of the tiles: the load order group·tile·k."""
    for tv in DEALT:
        s.split(tv, 1, 2, inner_split=False, labels=("group", "tile"))
    s.parallelize("T4", 1, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)
    return buffered(s)


def steps_of_one_tile_in_turn(s: Schedule) -> Fusion:
    """The same where rows are dealt out, which end with the matrix: only the order is wrong."""
    for tv in DEALT:
        s.parallelize(tv, 3, ParallelType.Serial)
        s.split(tv, 3, 64, labels=("group", "Mi"))
        s.reorder(tv, {3: 2} if tv == "T4" else {})
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.parallelize(tv, 4, ParallelType.Bulk)
        s.merge(tv, 1)
        s.merge(tv, 1)
    return buffered(s)


def a_turn_missed(s: Schedule) -> Fusion:
    """Two warpgroups for each three tiles: the first one has two of them, and then the next."""
    split_tile(s, ("T4",), 3)
    s.split("T4", 2, 2, labels=("pair", "turn"))
    s.parallelize("T4", 3, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
    return buffered(s)


def threads_that_load(s: Schedule) -> Fusion:
    split_tile(s, DEALT, 2)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)
        s.circular_buffer(tv, 4, 2, WarpSpecialized(ParallelType.TIDx))
    return s.fusion


def threads_that_compute(s: Schedule) -> Fusion:
    s.parallelize("T4", 3, ParallelType.Serial)
    s.split("T4", 3, 64, labels=("half", "Mi"))
    s.parallelize("T4", 3, ParallelType.TIDx)
    for tv in LOADS:
        s.merge(tv, 1)
    return buffered(s)


REFUSED: dict[str, Callable[[Schedule], Fusion]] = {
    f.__name__: f
    for f in (
        steps_in_turn,
        halves_in_turn,
        steps_of_one_tile_in_turn,
        a_turn_missed,
        threads_that_load,
        threads_that_compute,
    )
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: object) -> None:
    s = tiled()
    fusion = REFUSED[name](s)
    with pytest.raises(ScheduleError) as error:
        load_relation(fusion)
    assert str(error.value) == golden


def in_turn(parallel: ParallelType, on: ParallelType) -> Fusion:
    s = tiled()
    split_tile(s, DEALT, 2)
    s.parallelize("T4", 2, parallel)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)
        s.circular_buffer(tv, 4, 2, WarpSpecialized(on))
    return s.fusion


@pytest.mark.parametrize("parallel", [ParallelType.TIDy, ParallelType.TIDz])
@pytest.mark.parametrize("on", [ParallelType.TIDy, ParallelType.TIDz])
def test_turns_on_either_axis(parallel: ParallelType, on: ParallelType) -> None:
    r = load_relation(in_turn(parallel, on))
    assert (r.warpgroups.count, r.warpgroups.taking, r.cooperative) == (2, 1, False)
    assert [s.domain.label for s in r.digits] == ["tile", "group", "k"]
    assert (r.outside, r.digits[1].role) == (2, True)


def test_rows_and_columns_and_turns() -> None:
    """Two by two warpgroups share a tile, or two pairs of them take turns."""
    for turns in (False, True):
        s = tiled()
        for axis in (3, 4):
            s.parallelize("T4", axis, ParallelType.Serial)
        s.split("T4", 3, 64, labels=("row", "Mi"))
        s.parallelize("T4", 3, ParallelType.TIDy)
        if turns:
            split_tile(s, ("T4",), 2)
            s.parallelize("T4", 2, ParallelType.TIDz)
        else:
            s.split("T4", 5, 128, labels=("column", "Ni"))
            s.parallelize("T4", 5, ParallelType.TIDz)
        for tv in LOADS:
            s.merge(tv, 1)
            s.circular_buffer(tv, 4, 2, WarpSpecialized(ParallelType.TIDy))
        r = load_relation(s.fusion)
        assert (r.warpgroups.count, r.warpgroups.taking, r.cooperative) == (
            4,
            2 if turns else 4,
            not turns,
        )
        kind = "2 compute warpgroups" if turns else "every compute warpgroup"
        assert f"each step is consumed by {kind} of 4" in str(r)
