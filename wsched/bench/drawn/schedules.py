"""Which schedules are tried for a problem: what is taken, the model's first, some drawn, variants.

Drawn are half as many of those that the laws put near their best, whatever trees say of them: trees
are fitted to what was measured, and learn nothing where only what they like was. The variants are
those that the model may misjudge: its best in clusters of each shape and for tiles of each height,
and its first choice with other L2 promotions, orders of tiles and stream-K.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from wsched.bench.schedules.ranking import Ranked, label
from wsched.choose.heuristics import candidates, choose_params, ranked
from wsched.choose.learned.order import near_best, predicted
from wsched.choose.made import refusal
from wsched.choose.problem import Problem
from wsched.front.known import import_fusion
from wsched.schedule.matmul.early import in_shares, launched
from wsched.schedule.matmul.params import (
    ClusterDims,
    GemmTile,
    L2Promotions,
    MatmulParams,
    TensorMapL2Promotion,
    TileRasterizationOrder,
)

__all__ = ["FIRST", "schedules_for"]

FIRST = 12
"""Schedules of the model that are tried."""

ALIKE = 2
"""Of these so many with one tile."""

_PROMOTIONS = tuple(TensorMapL2Promotion)
_GROUPS = ((4, 1), (16, 1))


def schedules_for(definition: str, problem: Problem, first: int = FIRST) -> list[Ranked]:
    """Return schedules, each once, what ``wsched.compile`` takes in front.

    Args:
        definition: text of the fusion.
        problem: what is planned for.
        first: how many of the model's; 0 for none but what is taken, none drawn and no variants.
    """
    taken = choose_params(problem)
    tried = [taken]
    if first:
        found = [p for _, p in ranked(problem)]
        drawn = _drawn(problem, first // 2)
        tried += [*_first(found, first), *drawn, *_best_of_kinds(found), *_variants(taken)]
    fusion = import_fusion(definition)
    named: dict[str, MatmulParams] = {}
    for p in tried:
        if p is taken or not refusal(problem, p):
            named.setdefault(label(fusion, p), p)
    return [Ranked(name, predicted(problem, p).us, p) for name, p in named.items()]


def _first(found: list[MatmulParams], count: int) -> list[MatmulParams]:
    """The best-ranked schedules, few of them with the same tile."""
    seen: Counter[GemmTile] = Counter()
    kept = []
    for p in found:
        seen[p.output_tile] += 1
        if seen[p.output_tile] <= ALIKE:
            kept.append(p)
    return kept[:count]


def _drawn(problem: Problem, count: int) -> list[MatmulParams]:
    """So many of those that the laws put near their best, the same ones each time."""
    near = [c.params for c in near_best(candidates(problem))]
    drawing = Random(f"{problem.m}x{problem.n}x{problem.k}")
    return drawing.sample(near, min(count, len(near)))


def _best_of_kinds(found: list[MatmulParams]) -> list[MatmulParams]:
    """The best-ranked schedule with each cluster, and with tiles of each height."""
    kinds: dict[object, MatmulParams] = {}
    for p in found:
        kinds.setdefault(p.cluster_dims, p)
        kinds.setdefault(p.output_tile.m, p)
    return list(kinds.values())


def _variants(taken: MatmulParams) -> Iterator[MatmulParams]:
    """What is taken, but for what the model has no law of."""
    yield from (replace(taken, l2_promotions=L2Promotions(p, p)) for p in _PROMOTIONS)
    yield from (replace(taken, grid_traversal_factor=group) for group in _GROUPS)
    yield replace(taken, cta_order=TileRasterizationOrder.ColumnMajor)
    yield launched(taken, not taken.programmatic_dependent_launch)
    if taken.cluster_dims == ClusterDims():
        yield in_shares(taken)
