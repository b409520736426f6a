"""Medians, ratios, rotation and the length of a replay."""

from __future__ import annotations

import pytest

from wsched.bench.statistic import (
    Spread,
    geometric_mean,
    input_sets,
    paired_ratios,
    repetitions,
    rotated,
)


def test_spread() -> None:
    assert Spread.of([4, 1, 3, 2, 5]) == Spread(3, 2, 4)
    assert Spread.of([1, 2]) == Spread(1.5, 1.25, 1.75)
    assert Spread.of([7]) == Spread(7, 7, 7)
    assert Spread.of([1, 2]).to_dict() == {"median": 1.5, "low": 1.25, "high": 1.75}


def test_geometric_mean() -> None:
    assert geometric_mean([2, 8]) == pytest.approx(4)


def test_rotation_gives_every_place_to_everyone() -> None:
    rounds = [rotated("abc", turn) for turn in range(4)]
    assert rounds == [list("abc"), list("bca"), list("cab"), list("abc")]
    assert rotated([], 3) == []


def test_ratios_are_of_the_same_round() -> None:
    assert paired_ratios([2, 6], [1, 3]) == [2, 2]
    with pytest.raises(ValueError):
        paired_ratios([1, 2], [1])


@pytest.mark.parametrize(
    ("problem", "sets"), [(10 << 20, 12), (60 << 20, 2), (120 << 20, 1), (1 << 30, 1), (1, 16)]
)
def test_input_sets(problem: int, sets: int) -> None:
    assert input_sets(problem, 60 << 20) == sets


@pytest.mark.parametrize(
    ("microseconds", "sets", "launches"),
    [(1000, 1, 25), (1000, 4, 28), (100_000, 3, 3), (0.0, 1, 4096), (30_000, 1, 1)],
)
def test_repetitions(microseconds: float, sets: int, launches: int) -> None:
    assert repetitions(microseconds, 25, sets) == launches
