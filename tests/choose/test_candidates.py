"""Where candidates of the heuristic begin and end: the tile or cluster at each bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wsched.choose.cost_model import added_us, cost
from wsched.choose.heuristics import Tile, _parted, _priced, _spans, ranked
from wsched.choose.problem import Problem, demands
from wsched.fusion import DataType
from wsched.schedule.matmul.early import launched
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import CachePolicies, ClusterDims, SplitKMode

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
    assert _spans(problem(m, n), TILE, cluster) is spans


@pytest.mark.parametrize(("n", "spans"), [(120, False), (128, True), (136, True)])
def test_tiles_of_a_cluster_are_large(n: int, spans: bool) -> None:
    assert _spans(problem(4096, 4096), replace(TILE, n=n), ALONG_M) is spans


@pytest.mark.parametrize("side", ["align_a", "align_b"])
def test_but_for_rows_whose_lines_come_slowly(side: str) -> None:
    small = replace(TILE, m=64, n=64)
    assert not _spans(problem(4096, 4096), small, ALONG_M)
    assert _spans(replace(problem(4096, 4096), **{side: 16}), small, ALONG_M)


def test_parts_of_k_are_of_one_product() -> None:
    few = problem(64, 128, 16384)
    tile = Tile(64, 128, 1, False)
    whole = _priced(few, tile, ALONE)[0]
    made = _parted(few, tile, ALONE, whole)
    assert made and 1 not in {p.splitk_factor for p in made}
    _, best = _priced(few, tile, ALONE)
    other = launched(best.params, not best.params.programmatic_dependent_launch)
    assert best.cost.us <= min(cost(few, p).us for p in (*made, other))
    assert {p.splitk_mode for p in made} == {*SplitKMode}
    assert _parted(replace(few, a_count=2), tile, ALONE, whole) == []


@pytest.mark.parametrize(
    "changes", [{"work": 1}, {"n_entries": (64, 64)}, {"results": (BF16, BF16)}], ids=str
)
def test_parts_that_are_results_are_of_bare_products(changes: dict[str, Any]) -> None:
    """What else is computed does a CTA that has added the parts."""
    few, tile = replace(problem(64, 128, 16384), **changes), Tile(64, 128, 1, False)
    whole = _priced(few, tile, ALONE)[0]
    assert {p.splitk_mode for p in _parted(few, tile, ALONE, whole)} == {SplitKMode.Serial}


def test_parts_of_exchanged_tiles_are_stored_by_threads() -> None:
    """Results of fp32 cannot be turned on their way through shared memory."""
    bare, turned = problem(64, 128, 16384), Tile(64, 64, 1, exchanged=True)
    whole = _priced(bare, turned, ALONE)[0]
    stored = [p for p in _parted(bare, turned, ALONE, whole) if p.stores_parts]
    assert stored and all(p.exchange_operands and not p.use_smem_epilogue for p in stored)
    require_legal_for(demands(bare), stored[0])


def test_parts_that_are_results_leave_what_they_are_stored_in() -> None:
    """Stages beside buffers of fp32; the rest is the tile's."""
    asked, tile = problem(256, 256, 65536), Tile(128, 128, 2, False)
    whole = _priced(asked, tile, ALONE)[0]
    stored = [p for p in _parted(asked, tile, ALONE, whole) if p.stores_parts]
    assert {p.output_tile for p in stored} == {whole.params.output_tile}
    for p in stored:
        require_legal_for(demands(asked), p)
    cost_of = {p.splitk_factor: cost(asked, p) for p in stored}
    assert cost_of[32].combine_us == pytest.approx(added_us(asked, 32))
    assert added_us(asked, 32) > added_us(asked, 8) > 1.5 and added_us(asked, 1) == 0


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
