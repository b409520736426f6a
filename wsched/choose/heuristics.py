"""Which schedule for which problem: MatmulParams from the extents and the device.

A schedule that was measured for the problem is taken where a table has one (``wsched tune``).
Else :data:`TILES` in clusters of each of :data:`CLUSTERS` are the candidates; the cost model
predicts the time of each, launched dependently or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from lowering.ground.errors import ScheduleError
from wsched.choose.copy_engine import asks_dearly, promotions
from wsched.choose.cost_model import Cost, cost, places
from wsched.choose.problem import Problem, demands
from wsched.choose.tuned.lookup import lookup
from wsched.schedule.matmul.limits import require_legal_for
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
        across: warpgroups that lie side by side along N.
        exchanged: whether it is one of the transposed product.
    """

    m: int
    n: int
    warpgroups: int
    ping_pong: bool = False
    k: int = 64
    across: int = 1
    exchanged: bool = False


TILES = (
    *(Tile(128, n, 2, ping_pong=True) for n in range(64, 193, 16)),
    *(Tile(64, n, 2, ping_pong=True) for n in range(48, 257, 16)),
    *(Tile(128, n, 2) for n in range(64, 257, 16)),
    *(Tile(128, n, 2, across=2) for n in (288, 320, 352, 384)),
    *(Tile(192, n, 3) for n in range(64, 193, 16)),
    *(Tile(256, n, 2) for n in range(64, 193, 16)),
    *(Tile(64, n, 1, k=128) for n in (16, 24, 32, 48, 64)),
    *(Tile(64, n, 1) for n in range(64, 257, 16)),
    *(Tile(64, n, 2, across=2) for n in (288, 320, 352, 384)),
    Tile(128, 128, 1),
)
"""Of ``legal_tiles()`` every way to share a tile, with columns so close that tiles and SMs come out
even for some of them; K as a rule one swizzle span, two for few columns."""

EXCHANGED = (
    *((m, 1, False, k) for m in (64, 128) for k in (64, 128)),
    *((128, 2, ping_pong, k) for ping_pong in (False, True) for k in (64, 128)),
    (64, 2, True, 64), (192, 3, False, 64), (256, 2, False, 64), (256, 2, False, 128),
)  # fmt: skip
"""Of the transposed product: rows, warpgroups, whether in ping-pong, K. The columns are what few
rows of the result are dealt out in evenly, see :func:`_exchanged`."""

EXCHANGED_ROWS = 1024
"""With more rows a tile that wastes none of them is worth little: 2 to 5 % by the model at 1000."""

CLUSTERS = tuple(ClusterDims(m, n) for m in (1, 2, 4) for n in (1, 2, 4) if m * n <= 4)
"""CTAs along M and N."""

CLUSTERED = 128 * 128
"""Elements of the least tile for which a cluster pays where rows are aligned."""

WIDEST = 256
"""Columns of a wgmma."""

SPLITS = (2, 3, 4, 5, 6, 8, 10, 12)
"""Parts of K. Stream-K is no candidate: on 12 shapes from 256x768x768 to 64x8192x28672 whole tiles
or split-K were always faster, by 3 to 18 % (design/performance.md)."""

LEAST_STEPS = 4
"""Steps of the k loop that are worth a part of their own."""

TRAVERSAL = (8, 1)
"""Tiles along M that are visited together, so that operands are still in the L2 when they are read
again: row-major order lost a quarter of the speed at 8192x28672x4096; 4 and 16 were as fast as 8
within what repeats differ by."""


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
    alike = replace(problem, m=1, n=problem.n % 16 + 16, k=1, batch=1)
    for tile in (*TILES, *_exchanged(problem)):
        for cluster, ways in _launches(alike, tile).items():
            if not _spans(problem, tile, cluster):
                continue
            whole = _fastest(problem, ways)
            found.append(whole)
            if not problem.batch_invariant and (parts := _parted(problem, whole)):
                found.append(_fastest(problem, parts))
    return tuple(sorted(found, key=lambda c: c.cost.us))


def _exchanged(problem: Problem) -> Iterator[Tile]:
    """Tiles of the transposed product, whose columns are rows of the result: any multiple of 8.

    None for rows that fill tiles of rows as well, multiples of 64 or very many; nor where a row's
    bits must not depend on their number, for whether a wgmma gives the same bits with its operands
    exchanged is not known; nor where threads store results or read matrices, which they do element
    by element and nobody has measured.
    """
    by_tma = all(r.bytes == 2 for r in problem.results) and problem.unaligned is None
    by_tma = by_tma and not problem.matrices
    fills = problem.m > EXCHANGED_ROWS or problem.m % 64 == 0
    if problem.batch_invariant or fills or not by_tma:
        return
    least = -(-problem.m // WIDEST)
    even = {-(-problem.m // (8 * parts)) * 8 for parts in range(least, least + 4)}
    for (m, warpgroups, ping_pong, k), n in product(EXCHANGED, sorted(even)):
        yield Tile(m, n, warpgroups, ping_pong, k, exchanged=True)


@lru_cache(maxsize=4096)
def _launches(problem: Problem, tile: Tile) -> dict[ClusterDims, list[MatmulParams]]:
    """The legal parameters of a tile by cluster, launched dependently and not.

    Of the extents only the alignment of ``n`` counts.
    """
    made = _fitting(problem, tile)
    alone = [] if made is None else [replace(made, cluster_dims=cluster) for cluster in CLUSTERS]
    return {
        p.cluster_dims: [replace(p, programmatic_dependent_launch=x) for x in (True, False)]
        for p in alone
        if _legal(problem, p)
    }


def _legal(problem: Problem, params: MatmulParams) -> bool:
    try:
        require_legal_for(demands(problem), params)
    except ScheduleError:
        return False
    return True


def _fastest(problem: Problem, ways: list[MatmulParams]) -> Candidate:
    """The parameters with the least cost; of equals the first."""
    return min((Candidate(p, cost(problem, p)) for p in ways), key=lambda c: c.cost.us)


def _parted(problem: Problem, whole: Candidate) -> list[MatmulParams]:
    """The same with K in parts, where all parts have a place at the same time.

    Not of several products: what adds up parts has room for one accumulator.
    """
    if problem.products > 1:
        return []
    steps = -(-problem.k // whole.params.output_tile.k)
    ctas = whole.params.cluster_dims.m * whole.params.cluster_dims.n
    most = ctas * places(problem.sms, ctas)
    return [
        replace(whole.params, splitk_factor=parts, programmatic_dependent_launch=dependent)
        for parts in SPLITS
        if whole.cost.tiles * parts <= most and steps >= parts * LEAST_STEPS
        for dependent in (True, False)
    ]


def _fitting(problem: Problem, tile: Tile) -> MatmulParams | None:
    """The parameters of a tile; None where shared memory has no room for enough stages.

    Where shared memory has no room for the operands beside the epilogue, threads read its matrices
    themselves; where that is not enough, they store the results, too.
    """
    by_threads = replace(problem, inputs=None if problem.inputs else problem.inputs)
    ways = [problem, by_threads, replace(by_threads, smem_epilogue=False)]
    made = (_params(way, tile) for way in ways if way.smem_epilogue or not tile.exchanged)
    return next((params for params in made if params is not None), None)


def _params(problem: Problem, tile: Tile) -> MatmulParams | None:
    """The parameters of a candidate; None where shared memory has no room for enough stages."""
    base = MatmulParams(
        grid_traversal_factor=TRAVERSAL,
        use_smem_epilogue=problem.smem_epilogue and problem.unaligned is None,
        supported_vec_size=SupportedVectorization(2 if problem.pairs and problem.n % 2 == 0 else 1),
        epilogue_input_stages=0 if problem.inputs is None else 2,
        batch_invariant=problem.batch_invariant,
        l2_promotions=promotions(problem),
    )
    if tile.exchanged:
        # The tiles along few rows of A follow each other: all read the same rows of B.
        problem = problem.exchanged
        base = replace(
            base, exchange_operands=True, grid_traversal_factor=(1, 1),
            l2_promotions=promotions(problem),
        )  # fmt: skip
    made = with_tile(
        base, GemmTile(tile.m, tile.n, tile.k), tile.warpgroups, tile.ping_pong, tile.across
    )
    inputs = (problem.inputs or ()) if made.loads_epilogue_inputs else ()
    return fit_stages(
        made, problem.operand, problem.results, inputs, n_major=problem.n_major,
        target=problem.target, counts=(problem.a_count, problem.b_count),
        reductions=problem.reductions,
    )  # fmt: skip


def _spans(problem: Problem, tile: Tile, cluster: ClusterDims) -> bool:
    """Whether a cluster of such tiles is a candidate: a tile for every CTA, and large ones unless
    what each CTA asks for itself is dear.
    """
    if cluster == ClusterDims(1, 1):
        return True
    problem = problem.exchanged if tile.exchanged else problem
    fills = problem.m > tile.m * (cluster.m - 1) and problem.n > tile.n * (cluster.n - 1)
    return fills and (asks_dearly(problem) or tile.m * tile.n >= CLUSTERED)
