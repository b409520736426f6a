"""Rank correlation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wsched.bench.method.correlation import rank_correlation


def test_by_hand() -> None:
    assert rank_correlation([1, 2, 3], [10, 200, 3000]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # Distances of the ranks are 1, 1, 0, 0: 1 - 6 * 2 / (4 * 15).
    assert rank_correlation([1, 2, 3, 4], [20, 10, 30, 40]) == pytest.approx(0.8)
    # Ranks 0, 1.5, 1.5, 3 and 0 to 3: covariance 4.5, squares 4.5 and 5.
    assert rank_correlation([1, 5, 5, 9], [1, 2, 3, 4]) == pytest.approx((4.5 / 5) ** 0.5)


@pytest.mark.parametrize(("a", "b"), [([], []), ([1], [2]), ([1, 1], [1, 2])])
def test_none(a: list[float], b: list[float]) -> None:
    assert rank_correlation(a, b) is None


def test_lengths() -> None:
    with pytest.raises(ValueError, match=r"^2 and 1 values$"):
        rank_correlation([1, 2], [1])


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=9).flatmap(
    lambda a: st.tuples(st.just(a), st.permutations(a))
))  # fmt: skip
def test_only_the_order_counts(lists: tuple[list[int], list[int]]) -> None:
    a, b = lists
    found = rank_correlation(a, b)
    if len(set(a)) == 1:
        assert found is None
        return
    assert found is not None and -1 - 1e-9 <= found <= 1 + 1e-9
    assert rank_correlation([x**3 for x in a], b) == pytest.approx(found)
    assert rank_correlation(b, a) == pytest.approx(found)
    assert rank_correlation(a, [-x for x in b]) == pytest.approx(-found)
