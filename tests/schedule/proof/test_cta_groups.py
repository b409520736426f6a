"""Clusters whose CTAs have parts of one product."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.nest.lower import lower
from lowering.target.blackwell import BLACKWELL_PAIRS
from tests.blackwell import Tile, plan

PAIR = Tile(n=64, k=32, cluster=2, target=BLACKWELL_PAIRS, by_tma=False)


def test_a_pair_along_m() -> None:
    p = plan(PAIR)
    assert [str(g.extent) for g in p.cluster] == ["2"]
    assert p.target.mma.ctas == 2


@pytest.mark.parametrize(
    ("cluster", "found"),
    [(1, "there is no cluster"), (3, r"the cluster's last dimension is ctaM\{3\}")],
)
def test_who_is_no_pair(cluster: int, found: str) -> None:
    with pytest.raises(ScheduleError, match=found) as error:
        plan(replace(PAIR, cluster=cluster))
    assert error.value.rule == "grid"
    assert "Blackwell2CTA: 2 CTAs whose ranks are in a row multiply rows" in str(error.value)
    assert "a loop of 2 along M, merged last into the loop on BIDx" in str(error.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sums": 0}, r"T4 = mma\(T6, T7\) by a pair of CTAs beside what threads do"),
        ({"threads": True}, "T6 loaded by threads for a pair of CTAs"),
    ],
)
def test_what_no_pair_does(change: dict[str, Any], why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        lower(plan(replace(PAIR, **change)), "linear")


def test_each_holds_a_half_of_what_they_share() -> None:
    """Rows of A are a CTA's own; products are the leader's alone."""
    kernel = lower(plan(PAIR), "linear")
    assert kernel.buffer("T6").shape == (128, 32)
    assert kernel.buffer("T7").shape == (32, 32)
    assert kernel.tensor("T4").shape == (128, 64)
    assert kernel.ring("ring").shares == ()
