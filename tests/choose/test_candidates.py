"""Where candidates of the heuristic begin and end: the tile or cluster at each bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wsched.choose.heuristics import Tile, _parted, _priced, _spans, ranked
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.schedule.matmul.params import CachePolicies, ClusterDims

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
    whole = _priced(few, Tile(64, 128, 1, False), ALONE)[0]
    made = _parted(few, whole)
    assert made and 1 not in {p.splitk_factor for p in made}
    assert {p.programmatic_dependent_launch for p in made} == {True, False}
    assert _parted(replace(few, a_count=2), whole) == []


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
