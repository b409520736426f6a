"""Rings that hand out tiles: an entry for each team."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

KERNEL = """kernel k threads 128 cluster 1 grid 1 {{
  param n: i32
  shared tile: s32[{0}][1]
  ring queue(tile) stages {0} teams {1} remote
  roles {{ role all warps 0 .. 4 {{ elect {{ fetch.tiles queue, n }} }} }}
}}"""


@pytest.mark.parametrize(("stages", "teams"), [(1, 1), (2, 1), (2, 2), (3, 3), (4, 3)])
def test_as_many_as_teams(stages: int, teams: int) -> None:
    assert verify(parse_kernel(KERNEL.format(stages, teams))) == []


@pytest.mark.parametrize(("stages", "teams"), [(1, 2), (2, 3)])
def test_fewer(stages: int, teams: int) -> None:
    assert verify(parse_kernel(KERNEL.format(stages, teams))) == [
        f"queue has {stages} stages for {teams} teams, each of which takes entries of its own: it "
        "needs as many, in: fetch.tiles queue, n"
    ]
