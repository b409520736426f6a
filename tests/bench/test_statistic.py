"""Medians, ratios, the order of rounds and the length of a replay."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wsched.bench.method.statistic import (
    Spread,
    geometric_mean,
    in_turns,
    input_sets,
    orders,
    paired_ratios,
    repetitions,
)


def test_spread() -> None:
    assert Spread.of([4, 1, 3, 2, 5]) == Spread(3, 2, 4)
    assert Spread.of([1, 2]) == Spread(1.5, 1.25, 1.75)
    assert Spread.of([7]) == Spread(7, 7, 7)
    assert Spread.of([1, 2]).to_dict() == {"median": 1.5, "low": 1.25, "high": 1.75}


def test_geometric_mean() -> None:
    assert geometric_mean([2, 8]) == pytest.approx(4)


def test_orders_are_permutations_of_a_seed() -> None:
    names = list("abcd")
    drawn = orders(names, 200, "7 8x8x8")
    assert all(sorted(order) == names for order in drawn)
    assert drawn == orders(names, 200, "7 8x8x8")
    assert drawn != orders(names, 200, "8 8x8x8")
    assert orders([], 2, "") == [[], []]


def test_what_is_timed_in_turns() -> None:
    """In the drawn orders; rounds in front are run and do not count."""
    ran = list[str]()

    def timed(name: str) -> int:
        ran.append(name)
        return len(ran)

    seen = in_turns("ab", 3, "seed", timed, before=2)
    drawn = [name for order in orders("ab", 5, "seed") for name in order]
    assert ran == drawn
    assert seen == {n: [at for at, m in enumerate(drawn, 1) if m == n and at > 4] for n in "ab"}


def test_every_system_runs_after_every_other() -> None:
    names = list("abcd")
    drawn = orders(names, 200, "0")
    places = Counter((name, place) for order in drawn for place, name in enumerate(order))
    after = Counter(pair for order in drawn for pair in pairwise(order))
    assert len(places) == 16 and min(places.values()) > 30  # 50 expected
    assert len(after) == 12 and min(after.values()) > 30


def test_ratios_are_of_the_same_round() -> None:
    assert paired_ratios([2, 6], [1, 3]) == [2, 2]
    with pytest.raises(ValueError):
        paired_ratios([1, 2], [1])


@pytest.mark.parametrize(
    ("problem", "sets"), [(10 << 20, 13), (60 << 20, 3), (120 << 20, 2), (1 << 30, 2), (1, 4096)]
)
def test_input_sets(problem: int, sets: int) -> None:
    assert input_sets(problem, 60 << 20) == sets


@pytest.mark.slow
@given(problem=st.integers(1 << 15, 1 << 33), cache=st.integers(1 << 20, 60 << 20))
def test_twice_the_cache_lies_between_two_visits(problem: int, cache: int) -> None:
    sets = input_sets(problem, cache)
    assert (sets - 1) * problem >= 2 * cache
    assert (sets - 2) * problem < 2 * cache  # and no more sets than that takes


@pytest.mark.parametrize(
    ("microseconds", "sets", "launches"),
    [(1000, 1, 25), (1000, 4, 28), (100_000, 3, 3), (0.0, 1, 4096), (30_000, 1, 1)],
)
def test_repetitions(microseconds: float, sets: int, launches: int) -> None:
    assert repetitions(microseconds, 25, sets) == launches
