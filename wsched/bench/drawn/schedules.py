"""Which schedules are tried for a problem: what is taken, the model's first, and variants.

The variants are those that the model may not know to be good: larger clusters, other L2 promotions,
and other slices of K of the tiles that it ranks first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lowering.ground.errors import WschedError
from wsched.bench.schedules.ranking import Ranked, label
from wsched.choose.cost_model import cost
from wsched.choose.heuristics import choose_params, ranked
from wsched.choose.problem import Problem, demands
from wsched.front.known import import_fusion
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import (
    ClusterDims,
    L2Promotions,
    MatmulParams,
    TensorMapL2Promotion,
)
from wsched.schedule.matmul.tiles import fit_stages, with_tile

__all__ = ["FIRST", "schedules_for"]

FIRST = 12
"""Schedules of the model that are tried."""

TILES = 3
"""Tiles, the best-ranked ones, of which variants are tried."""

_CLUSTERS = tuple(ClusterDims(*c) for c in ((1, 1), (2, 1), (1, 2), (4, 1), (2, 2)))
_PROMOTIONS = (TensorMapL2Promotion.B128, TensorMapL2Promotion.B256)
_OTHERS = (TensorMapL2Promotion.NoL2Promotion, TensorMapL2Promotion.B64)
_SLICES = (32, 128)


def schedules_for(definition: str, problem: Problem, first: int = FIRST) -> list[Ranked]:
    """Return schedules, each once, what ``wsched.compile`` takes in front.

    Args:
        definition: text of the fusion.
        problem: what is planned for.
        first: how many of the model's; 0 for none but what is taken, and no variants.
    """
    taken = choose_params(problem)
    found = [p for _, p in ranked(problem)]
    tried = [taken]
    if first:
        tried += [*found[:first], *_variants(problem, found)]
    fusion = import_fusion(definition)
    named = {label(fusion, p): p for p in reversed(tried) if p is taken or _legal(problem, p)}
    return [Ranked(name, cost(problem, p).us, p) for name, p in reversed(named.items())]


def _legal(problem: Problem, params: MatmulParams) -> bool:
    try:
        require_legal_for(demands(problem), params)
    except WschedError:
        return False
    return True


def _variants(problem: Problem, found: list[MatmulParams]) -> Iterator[MatmulParams]:
    for place, params in enumerate(_first_of_tiles(found)):
        for cluster in _CLUSTERS:
            clustered = replace(params, cluster_dims=cluster)
            for promotion in _PROMOTIONS:
                yield _promoted(clustered, promotion)
        if place == 0:
            yield from (_promoted(params, p) for p in _OTHERS)
        if place < 2:
            for k in _SLICES:
                yield from _sliced(problem, params, k)


def _first_of_tiles(found: list[MatmulParams]) -> list[MatmulParams]:
    """The best-ranked schedule with whole tiles of each of a few tiles."""
    by_tile: dict[object, MatmulParams] = {}
    for p in found:
        if p.splitk_factor == 1:
            by_tile.setdefault((p.output_tile, p.warpgroups, p.ping_pong), p)
    return list(by_tile.values())[:TILES]


def _promoted(params: MatmulParams, promotion: TensorMapL2Promotion) -> MatmulParams:
    return replace(params, l2_promotions=L2Promotions(promotion, promotion))


def _sliced(problem: Problem, params: MatmulParams, k: int) -> Iterator[MatmulParams]:
    """The same tile in steps of ``k`` columns, alone and in a cluster of 2x1."""
    if k == params.output_tile.k:
        return
    tile = replace(params.output_tile, k=k)
    made = with_tile(params, tile, params.warpgroups, params.ping_pong)
    inputs = problem.inputs or ()
    fit = fit_stages(made, problem.operand, problem.results, inputs, n_major=problem.n_major)
    if fit is not None:
        for cluster in _CLUSTERS[:2]:
            yield _promoted(replace(fit, cluster_dims=cluster), TensorMapL2Promotion.B128)
