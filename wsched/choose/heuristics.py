"""Which schedule for which problem: MatmulParams from the extents and the device.

A schedule that was measured for the problem is taken where a table has one (``wsched tune``).
Else :data:`TILES` in clusters of each of :data:`CLUSTERS` are the candidates; the cost model
predicts the time of each, launched dependently or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from wsched.choose.cost_model import Cost, cost
from wsched.choose.problem import Problem
from wsched.choose.tuned.lookup import lookup
from wsched.schedule.matmul.params import (
    ClusterDims,
    GemmTile,
    MatmulParams,
    SupportedVectorization,
)
from wsched.schedule.matmul.tiles import fit_stages, with_tile

__all__ = [
    "CLUSTERS", "TILES", "Candidate", "Tile", "candidates", "choose_params", "modelled", "ranked",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tile:
    """An output tile and who computes it.

    Args:
        m: rows (a warpgroup's in ping-pong).
        n: columns.
        warpgroups: that compute.
        ping_pong: whether each has tiles of its own.
        k: columns of a step.
    """

    m: int
    n: int
    warpgroups: int
    ping_pong: bool = False
    k: int = 64


TILES = (
    *(Tile(128, n, 2, ping_pong=True) for n in (96, 128, 160, 192)),
    *(Tile(64, n, 2, ping_pong=True) for n in (64, 96, 128, 160, 192)),
    *(Tile(128, n, 2) for n in (96, 128, 160, 192, 256)),
    Tile(256, 128, 2),
    *(Tile(64, n, 1, k=128) for n in (16, 32, 64)),
    *(Tile(64, n, 1) for n in (128, 256)),
    Tile(128, 128, 1),
)
"""Of ``legal_tiles()`` those that were fastest somewhere (60 shapes of model layers, H200)."""

CLUSTERS = (ClusterDims(1, 1), ClusterDims(2, 1), ClusterDims(1, 2))
"""CTAs along M and N. Larger ones were never faster, and none of tiles below ``CLUSTERED``."""

CLUSTERED = 128 * 128

SPLITS = (2, 3, 4, 8)
"""Parts of K. Stream-K is no candidate: on 12 shapes from 256x768x768 to 64x8192x28672 whole tiles
or split-K were always faster, by 3 to 18 % (design/performance.md)."""

LEAST_STEPS = 4
"""Steps of the k loop that are worth a part of their own."""

TRAVERSAL = (8, 1)
"""Tiles along M that are visited together, so that operands are still in the L2 when they are read
again: row-major order lost a quarter of the speed at 8192x28672x4096; 4 and 16 were as fast as 8
within what repeats differ by."""

ACCUMULATORS, ACCUMULATORS_BESIDE_WORK = 192, 160
"""Most registers of a thread for accumulators; with more ptxas spills. An epilogue that does more
than cast needs some of its own."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule with as many stages as fit, and its predicted cost."""

    params: MatmulParams
    cost: Cost


def choose_params(problem: Problem, *, tuned: bool = True) -> MatmulParams:
    """The schedule that a table has for the problem, else that with the least predicted time.

    Args:
        problem: what to plan for.
        tuned: whether to look into the tables; ``WSCHED_TUNED=0`` in the environment says no, too.
    """
    hit = lookup(problem) if tuned else None
    return modelled(problem) if hit is None else hit.entry.params


@lru_cache(maxsize=4096)
def modelled(problem: Problem) -> MatmulParams:
    """The schedule with the smallest predicted time."""
    return candidates(problem)[0].params


def ranked(problem: Problem) -> list[tuple[float, MatmulParams]]:
    """Predicted microseconds and parameters of every candidate, best first."""
    return [(c.cost.us, c.params) for c in candidates(problem)]


@lru_cache(maxsize=256)
def candidates(problem: Problem) -> tuple[Candidate, ...]:
    """Every candidate, best first: each tile once per cluster, and once in parts where that leaves
    fewer SMs idle.

    Of a batch-invariant problem those that sum along K in the one fixed order.
    """
    found: list[Candidate] = []
    for tile in TILES:
        params = _fitting(problem, tile)
        if params is None:
            continue
        for cluster in CLUSTERS:
            if _spans(problem, tile, cluster):
                whole = _launched(problem, [replace(params, cluster_dims=cluster)])
                parts = [] if problem.batch_invariant else _parted(problem, whole)
                found += [whole, *([_launched(problem, parts)] if parts else [])]
    return tuple(sorted(found, key=lambda c: c.cost.us))


def _launched(problem: Problem, ways: list[MatmulParams]) -> Candidate:
    """The fastest of some parameters, launched dependently or not; of equals the first."""
    tried = (
        replace(params, programmatic_dependent_launch=dependent)
        for params in ways
        for dependent in (True, False)
    )
    return min((Candidate(p, cost(problem, p)) for p in tried), key=lambda c: c.cost.us)


def _parted(problem: Problem, whole: Candidate) -> list[MatmulParams]:
    """The same with K in parts, where all parts have a place at the same time."""
    steps = -(-problem.k // whole.params.output_tile.k)
    return [
        replace(whole.params, splitk_factor=parts)
        for parts in SPLITS
        if whole.cost.tiles * parts <= problem.sms and steps >= parts * LEAST_STEPS
    ]


def _fitting(problem: Problem, tile: Tile) -> MatmulParams | None:
    """The parameters of a tile; None where its accumulators leave the epilogue no registers.

    Where shared memory has no room for the operands beside the epilogue, threads read its matrices
    themselves; where that is not enough, they store the results, too.
    """
    rows = tile.m if tile.ping_pong else tile.m // tile.warpgroups
    most = ACCUMULATORS_BESIDE_WORK if problem.work else ACCUMULATORS
    if rows * tile.n > most * 128:
        return None
    by_threads = replace(problem, inputs=None if problem.inputs else problem.inputs)
    ways = (problem, by_threads, replace(by_threads, smem_epilogue=False))
    made = (_params(way, tile) for way in ways)
    return next((params for params in made if params is not None), None)


def _params(problem: Problem, tile: Tile) -> MatmulParams | None:
    """The parameters of a candidate; None where shared memory has no room for enough stages."""
    base = MatmulParams(
        grid_traversal_factor=TRAVERSAL,
        use_smem_epilogue=problem.smem_epilogue and problem.unaligned is None,
        supported_vec_size=SupportedVectorization(2 if problem.pairs and problem.n % 2 == 0 else 1),
        epilogue_input_stages=0 if problem.inputs is None else 2,
        batch_invariant=problem.batch_invariant,
    )
    made = with_tile(base, GemmTile(tile.m, tile.n, tile.k), tile.warpgroups, tile.ping_pong)
    inputs = problem.inputs or ()
    return fit_stages(made, problem.operand, problem.results, inputs, n_major=problem.n_major)


def _spans(problem: Problem, tile: Tile, cluster: ClusterDims) -> bool:
    """Whether a cluster of such tiles is a candidate: large ones, and a tile for every CTA."""
    if cluster == ClusterDims(1, 1):
        return True
    fills = problem.m > tile.m * (cluster.m - 1) and problem.n > tile.n * (cluster.n - 1)
    return fills and tile.m * tile.n >= CLUSTERED
