"""Where candidates of the heuristic begin and end: the tile or cluster at each bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wsched.choose.combine import added_us
from wsched.choose.cost_model import cost
from wsched.choose.heuristics import Tile, _clusters, _in_parts, _parted, _priced, ranked
from wsched.choose.problem import Problem, demands
from wsched.fusion import DataType
from wsched.schedule.matmul.early import launched
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import CachePolicies, ClusterDims, MatmulParams, SplitKMode

BF16 = DataType.BFloat16
ALONE, ALONG_M, ALONG_N = ClusterDims(1, 1), ClusterDims(2, 1), ClusterDims(1, 2)
TILE = Tile(128, 128, 2, False)


def problem(m: int, n: int, k: int = 4096) -> Problem:
    return Problem(m, n, k, BF16, (BF16,), 132)


@pytest.mark.parametrize(
    ("m", "n", "cluster", "spans"),
    [
        (1, 1, ALONE, True),
        (128, 4096, ALONG_M, False),
        (129, 4096, ALONG_M, True),
        (4096, 128, ALONG_N, False),
        (4096, 129, ALONG_N, True),
        (1, 129, ALONG_N, True),
        (129, 1, ALONG_M, True),
    ],
)
def test_a_cluster_has_a_tile_for_each_cta(
    m: int, n: int, cluster: ClusterDims, spans: bool
) -> None:
    assert (cluster in _clusters(problem(m, n), TILE)) is spans


@pytest.mark.parametrize(("n", "spans"), [(120, False), (128, True), (136, True)])
def test_tiles_of_a_cluster_are_large(n: int, spans: bool) -> None:
    assert (ALONG_M in _clusters(problem(4096, 4096), replace(TILE, n=n))) is spans


@pytest.mark.parametrize("side", ["align_a", "align_b"])
def test_but_for_rows_whose_lines_come_slowly(side: str) -> None:
    small = replace(TILE, m=64, n=64)
    assert _clusters(problem(4096, 4096), small) == [ALONE]
    assert ALONG_M in _clusters(replace(problem(4096, 4096), **{side: 16}), small)


@pytest.mark.parametrize(("sms", "most"), [(1, 1), (3, 2), (7, 4), (8, 8)])
def test_a_cluster_has_a_multiprocessor_for_each_cta(sms: int, most: int) -> None:
    found = _clusters(replace(problem(4096, 4096), sms=sms), TILE)
    assert found[0] == ALONE and max(c.m * c.n for c in found) == most


@pytest.mark.parametrize("sizes", [(0, 4096), (4096, 0)])
def test_of_nothing_there_is_a_cluster_of_one(sizes: tuple[int, int]) -> None:
    assert _clusters(problem(*sizes), TILE) == [ALONE]


def parted(problem: Problem, tile: Tile) -> list[MatmulParams]:
    """A tile in all parts of K that are tried."""
    whole = _priced(problem, tile, ALONE)[0]
    every = _parted(problem, whole)
    return [way.params for way in _in_parts(problem, tile, ALONE, whole.params, every)]


def test_parts_of_k_are_of_one_product() -> None:
    few = problem(64, 128, 16384)
    tile = Tile(64, 128, 1, False)
    made = parted(few, tile)
    assert made and 1 not in {p.splitk_factor for p in made}
    _, best = _priced(few, tile, ALONE)
    other = launched(best.params, not best.params.programmatic_dependent_launch)
    assert best.cost.us <= min(cost(few, p).us for p in (*made, other))
    assert {p.splitk_mode for p in made} == {*SplitKMode}
    assert parted(replace(few, a_count=2), tile) == []


@pytest.mark.parametrize(
    "changes", [{"work": 1}, {"n_entries": (64, 64)}, {"results": (BF16, BF16)}], ids=str
)
def test_parts_that_are_results_are_of_bare_products(changes: dict[str, Any]) -> None:
    """What else is computed does a CTA that has added the parts."""
    few, tile = replace(problem(64, 128, 16384), **changes), Tile(64, 128, 1, False)
    assert {p.splitk_mode for p in parted(few, tile)} == {SplitKMode.Serial}


def test_parts_of_exchanged_tiles_are_stored_by_threads() -> None:
    """Results of fp32 cannot be turned on their way through shared memory."""
    bare, turned = problem(64, 128, 16384), Tile(64, 64, 1, exchanged=True)
    stored = [p for p in parted(bare, turned) if p.stores_parts]
    assert stored and all(p.exchange_operands and not p.use_smem_epilogue for p in stored)
    require_legal_for(demands(bare), stored[0])


def test_parts_that_are_results_leave_what_they_are_stored_in() -> None:
    """Stages beside buffers of fp32; the rest is the tile's."""
    asked, tile = problem(256, 256, 65536), Tile(128, 128, 2, False)
    stored = [p for p in parted(asked, tile) if p.stores_parts]
    assert {(p.output_tile.m, p.output_tile.n) for p in stored} == {(128, 128)}
    for p in stored:
        require_legal_for(demands(asked), p)
    cost_of = {p.splitk_factor: cost(asked, p) for p in stored}
    assert cost_of[32].combine_us == pytest.approx(added_us(asked, 32))
    assert added_us(asked, 32) > added_us(asked, 8) > 1.5 and added_us(asked, 1) == 0


def test_parts_that_are_left_out_are_none_that_is_asked_for() -> None:
    """However few of them may be near enough, the best of those that are is the best of all; where
    none of these is, and others may be launched otherwise, all are priced.
    """
    asked, tile = problem(256, 256, 65536), Tile(128, 128, 2, False)
    whole, best = _priced(asked, tile, ALONE)
    own = best.params.splitk_mode, best.params.splitk_factor
    other = next(way for way in _parted(asked, whole) if way != own)
    for some in ([own], [other, own]):
        assert _priced(asked, tile, ALONE, some, best.cost.us) == [whole, best]
    assert _priced(asked, tile, ALONE, [other], 0.9 * best.cost.us) == [whole, best]
    assert _priced(asked, tile, ALONE, [], 0.9 * best.cost.us) == [whole]


def test_no_parts_of_k_where_rows_must_not_depend_on_each_other() -> None:
    few = problem(64, 128, 16384)
    parted = [p for _, p in ranked(few) if p.splitk_factor > 1]
    assert parted
    assert all(p.splitk_factor == 1 for _, p in ranked(replace(few, batch_invariant=True)))


def test_policies_are_those_of_the_problem() -> None:
    """Weights that are read once by few rows are not kept; of a square problem all are."""
    few = _priced(problem(64, 16384, 16384), Tile(64, 128, 1, False), ALONE)[0]
    assert few.params.cache_policies != CachePolicies()
    square = _priced(problem(8192, 8192), TILE, ALONE)[0]
    assert square.params.cache_policies == CachePolicies()
