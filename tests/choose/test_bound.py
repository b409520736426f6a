"""The lower bound that a choice prunes by: below every prediction, and close enough to prune."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.choose.test_unaligned import planned
from wsched.choose import heuristics
from wsched.choose.bound import least_us
from wsched.choose.heuristics import Candidate, candidates, modelled
from wsched.choose.problem import Problem
from wsched.choose.tiles import CLUSTERS, Tile, tiles_for
from wsched.fusion import DataType
from wsched.schedule.matmul.params import ClusterDims

PROBLEMS = {
    "square": planned("4096x4096x4096 tn"),
    "rows of 16 bytes": planned("3320x6544x3784 tt"),
    "parts of K": planned("512x408x8760 tn"),
    "N-major": planned("784x2624x5960 tt"),
    "one row of tiles": planned("16x4608x3584 tn"),
    "exchanged": planned("200x8192x28672 tn"),
    "one step": planned("7416x8784x16 nn"),
    "batch": replace(planned("512x512x512 tn"), batch=12),
    "batch-invariant": replace(planned("512x408x8760 tn"), batch_invariant=True),
    "two products": replace(planned("1024x2048x1024 tn"), b_count=2),
    "fp32 results": replace(planned("2048x2048x256 nn"), results=(DataType.Float,) * 2, work=30),
}


@pytest.mark.sampled
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_no_candidate_costs_less_than_its_bound_and_the_choice_is_the_best(
    problem: Problem,
) -> None:
    tried = [(t, c) for t in tiles_for(problem) for c in CLUSTERS]
    least = {
        (t.m, t.n, t.k, t.warpgroups, t.ping_pong, t.across, t.exchanged, c): us
        for (t, c), us in zip(tried, least_us(problem, tried), strict=True)
    }
    found = candidates(problem)
    for c in found:
        p, tile = c.params, c.params.output_tile
        key = (
            *(tile.m, tile.n, tile.k, p.warpgroups, p.ping_pong, p.across),
            *(p.exchange_operands, p.cluster_dims),
        )
        assert 0 < least[key] <= c.cost.us
    assert modelled.__wrapped__(problem) == found[0].params


@pytest.mark.parametrize("name", ["square", "rows of 16 bytes", "parts of K"])
def test_most_is_neither_made_nor_priced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, priced = [], heuristics._priced

    def count(problem: Problem, tile: Tile, cluster: ClusterDims) -> list[Candidate]:
        made.append(tile)
        return priced(problem, tile, cluster)

    monkeypatch.setattr(heuristics, "_priced", count)
    modelled.__wrapped__(PROBLEMS[name])
    assert 0 < len(made) < 0.4 * len(heuristics._tried(PROBLEMS[name]))
