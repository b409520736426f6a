"""Which schedule for which problem: MatmulParams from the extents and the device.

A schedule that was measured for the problem is taken where a table has one (``wsched tune``).
Else :data:`TILES` in clusters of each of :data:`CLUSTERS` are the candidates; the cost model
predicts the time of each, launched dependently or not, and those that it puts in front are ranked
by what was measured of schedules like them (:mod:`wsched.choose.learned.order`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, groupby, product
from math import inf
from operator import itemgetter

import numpy as np

from lowering.ground.errors import UnsupportedError
from lowering.ground.frozen import replaced
from lowering.ground.log import log
from wsched.choose.bound import InParts, least_in_parts, least_us
from wsched.choose.candidate import Candidate
from wsched.choose.copy_engine import (
    asks_dearly,
    asks_early,
    memory_decides,
    policies,
    promotions,
)
from wsched.choose.cost import Cost
from wsched.choose.cost_model import cost, places, tiled
from wsched.choose.groups import delayed
from wsched.choose.launch import Launch
from wsched.choose.learned.order import in_order, near
from wsched.choose.made import is_legal, made, refusal
from wsched.choose.problem import Problem
from wsched.choose.siblings import sharing_groups
from wsched.choose.stored_parts import in_parts_at_all, stored_in_parts
from wsched.choose.tensor_memory import in_tensor_memory
from wsched.choose.thread_loads import SURE, are_large, copied_us, variants
from wsched.choose.tiles import CLUSTERS, TILES, Tile, splits, tiles_for, tiles_of_groups
from wsched.choose.tuned.lookup import Hit, lookup
from wsched.choose.ways import Way, fastest, ways
from wsched.schedule.matmul.chunks import chunk_columns
from wsched.schedule.matmul.early import in_parts, launched
from wsched.schedule.matmul.kernel_options import thread_bytes
from wsched.schedule.matmul.params import ClusterDims, MatmulParams, SplitKMode, ThreadLoads
from wsched.schedule.options import CachePolicy

__all__ = [
    "CLUSTERS", "TILES", "Candidate", "Taken", "Tile", "candidates", "choose_params", "least_cost",
    "modelled", "ranked", "taken", "thread_loaded",
]  # fmt: skip


_EITHER = (Launch(True), Launch(False))


CLUSTERED = 128 * 128
"""Elements of the least tile for which a cluster pays where rows are aligned."""


WIDENED_STEPS = {4: 1, 8: 2}
"""Of weights that threads widen, by their bits, the steps that the L2 is asked for early (H200,
2026-11-29, 16 rows): of 4 bits 14.1 us with one, 14.3, 14.6 and 15.0 with more, 14.9 with none; of
int8 19.0 with two and 20.2 with none, of e4m3 19.1, 19.6 with four, and 20.3. By groups of K 0.1
to 0.4 slower with one: the first scales wait behind them."""


DEFERRED_COLUMNS = 32
"""Columns of a chunk from which on it is stored during the next tile's main loop. 64 groups of 128
rows (2048 x 7168, H200, 2026-11-30): tiles of 64 x 240, 208 and 176, in chunks of 16 columns, take
1.51, 1.66 and 1.56 of the cycles that they take otherwise, those of 256, 224, 192, 160 and 128, in
chunks of 32 and 64, 0.99 to 1.01."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The schedule of a problem.

    Args:
        params: the schedule.
        why: in a few words where it is from.
        hit: of the table that has it, if one has.
    """

    params: MatmulParams
    why: str
    hit: Hit | None = None


def choose_params(problem: Problem, *, tuned: bool = True) -> MatmulParams:
    """The schedule that a table has for the problem, else that with the least predicted time.

    Args:
        problem: what to plan for.
        tuned: whether to look into the tables; ``WSCHED_TUNED=0`` in the environment says no, too.
    """
    found = taken(problem, tuned=tuned)
    log("schedule", lambda: f"{_told(problem)}: {found.why}")
    return found.params


def taken(problem: Problem, *, tuned: bool = True) -> Taken:
    """What :func:`choose_params` returns, and where it is from."""
    if problem.target.tensor_memory is not None:
        return Taken(candidates(problem)[0].params, "by data sheets, nothing was measured")
    if problem.grouped:
        return Taken(candidates(problem)[0].params, "by the cost model")
    hit = lookup(problem) if tuned else None
    if hit is not None:
        return Taken(hit.entry.params, f"the fastest measured on {hit.gpu}, {hit.file}", hit)
    params = _of_the_whole(problem) if tuned else None
    if params is not None:
        return Taken(params, "that of the same product of one operand, which was measured")
    by_threads = thread_loaded(problem)
    if by_threads is not None:
        return Taken(by_threads.params, "by the cost model, operands loaded by threads")
    return Taken(modelled(problem), "by the cost model")


def _of_the_whole(problem: Problem) -> MatmulParams | None:
    """The schedule that a table has for operands side by side as if they were one, where that makes
    no more tiles of them: then it is as fast (0028).
    """
    if not (problem.m_entries or problem.n_entries):
        return None
    whole = replaced(problem, m_entries=(), n_entries=())
    hit = lookup(whole)
    if hit is None or not is_legal(problem, hit.entry.params):
        return None
    params = hit.entry.params
    return params if problem.tiles(params) == whole.tiles(params) else None


def _told(problem: Problem) -> str:
    """A problem in a few words, for ``WSCHED_LOG``."""
    batch = f"{problem.batch}x" * (problem.batch != 1)
    sizes = f"{batch}{problem.m}x{problem.n}x{problem.k}"
    return f"{sizes} on {problem.gpu}, {problem.sms} multiprocessors"


@lru_cache(maxsize=256)
def thread_loaded(problem: Problem) -> Candidate | None:
    """The schedule whose threads load what TMA cannot read of the operands, where that is predicted
    to be clearly faster than copies in front of the best one by TMA.
    """
    if not are_large(problem) or problem.batch_invariant:
        return None
    by_tma = least_cost(problem).us + copied_us(problem)
    alone = [(tile, cluster) for tile, cluster in _tried(problem) if cluster == ClusterDims()]
    near = zip(alone, least_us(problem, alone), strict=True)  # threads make no kernel faster
    found = [c for tried, us in near if us * SURE <= by_tma for c in _priced(problem, *tried)]
    tried = variants(problem, (c.params for c in sorted(found, key=lambda c: c.cost.us)))
    legal = (p for p in tried if is_legal(problem, p))
    priced = [(c, c.cost.us + copied_us(problem, ThreadLoads(*thread_bytes(c.params))))
              for c in (Candidate(p, cost(problem, p)) for p in legal)]  # fmt: skip
    best, us = min(priced, key=lambda x: x[1], default=(None, inf))
    return best if us * SURE <= by_tma else None


def modelled(problem: Problem) -> MatmulParams:
    """The first of the :func:`candidates`; with reductions it is launched dependently: the laws
    expect more of the L2 of kernels that start late, but beside reductions each of five tiles took
    1 to 2 us less so (0026). So it is where threads compute an operand, as whatever was measured.
    """
    params = _searched(problem)[0].params
    early = problem.reductions.results or problem.computed is not None
    return launched(params, True) if early else params


def least_cost(problem: Problem) -> Cost:
    """What the laws say of the candidate that they put first, whichever is taken: they know all
    problems, so their prices of one can be held against those of another.
    """
    return _searched(problem)[1].cost


@lru_cache(maxsize=4096)
def _searched(problem: Problem) -> tuple[Candidate, Candidate]:
    """The first candidate, and the first by the laws.

    What the laws cannot put near the best so far is neither made nor priced, which is most.
    """
    tried = _tried(problem)
    each, least = least_in_parts(problem, tried)
    best, further, found = inf, near(problem), dict[int, list[Candidate]]()
    of_all = least.min(axis=1)
    for i in np.argsort(of_all, kind="stable").tolist():
        furthest = best * further
        if of_all[i] > furthest:
            break
        some = set(compress(each, (least[i] <= furthest).tolist()))
        tile, cluster = tried[i]
        found[i] = _priced(problem, tile, cluster, some, furthest)
        best = min([best, *(c.cost.us for c in found[i])])
    every = [c for i in sorted(found) for c in found[i]] or list(candidates(problem))
    return in_order(problem, every)[0], min(every, key=lambda c: c.cost.by_laws)


def ranked(problem: Problem) -> list[tuple[float, MatmulParams]]:
    """Microseconds and parameters of every candidate, in the order of :func:`candidates`."""
    return [(c.cost.us, c.params) for c in candidates(problem)]


@lru_cache(maxsize=32)
def candidates(problem: Problem) -> tuple[Candidate, ...]:
    """Every candidate, best first: each tile once per cluster, once in parts where that leaves
    fewer SMs idle, and the fastest several that share groups out, where they gain.

    Of a batch-invariant problem those that sum along K in the one fixed order.

    Raises:
        UnsupportedError: there is none.
    """
    if problem.target.tensor_memory is not None:
        return in_tensor_memory(problem)
    found = (c for tried in _tried(problem) for c in _priced(problem, *tried))
    best = in_order(problem, list(found))
    if not best:
        raise _none_for(problem)
    several = sharing_groups(problem, best)
    return best if several is None else (several, *best)


def _none_for(problem: Problem) -> UnsupportedError:
    """What is refused where no tile is legal."""
    if problem.added and problem.batch_invariant:
        what = "batch_invariant=True of rows that are added to others, in any order"
        return UnsupportedError(what, "rows that are stored, and summed behind that")
    if problem.computed is not None:
        what = f"an operand that is computed from {problem.computed.dtype}, in no legal tile"
        return UnsupportedError(what, "one whose rows and slices of K registers hold")
    count = f"{problem.products} products" if problem.products > 1 else "a product"
    what = f"{count} of {problem.operand} as these lie, in no legal tile"
    room = "as many products and results as one has room for"
    return UnsupportedError(what, f"K-major operands (of 16 bits any), {room}")


def _tried(problem: Problem) -> list[tuple[Tile, ClusterDims]]:
    """Tiles in clusters that are candidates where they are legal."""
    both, tiles = (problem, problem.exchanged), tiles_for(problem)
    if problem.grouped == "k":  # tiles have any number of steps: warpgroups that take turns do not
        tiles = tuple(t for t in tiles if not t.ping_pong)
    found = [(t, c) for t in tiles for c in _clusters(both[t.exchanged], t)]
    return found + [(t, ClusterDims()) for t in tiles_of_groups(problem)]


def _priced(
    problem: Problem, tile: Tile, cluster: ClusterDims, some: Collection[InParts] | None = None,
    furthest: float = inf,
) -> list[Candidate]:  # fmt: skip
    """The candidates of a tile in a cluster: none, whole tiles, or these and parts of K.

    Args:
        problem: what to plan for.
        tile: it.
        cluster: its cluster.
        some: the parts of K that may cost no more than is asked for; None if any may.
        furthest: microseconds up to which parts of K are asked for.
    """
    computed = tile.of(problem)
    kept = policies(computed, tile, cluster), promotions(computed)
    found = made(problem, tile, cluster, *kept)
    if not found:
        return []
    best = fastest(ways([tiled(problem, params) for params in found], _EITHER))
    params = _hinted(computed, best.params)
    whole = Candidate(params, best.cost, best.terms)
    if problem.grouped:
        return [_in_order(problem, _deferred(problem, whole))]
    if problem.batch_invariant:
        return [whole]
    every = _parted(problem, whole)
    near = every if some is None else [way for way in every if way in some]
    parted = list(_in_parts(problem, tile, cluster, params, near))
    if not parted:
        return [whole]
    best = fastest(parted)
    if best.cost.by_laws > furthest:  # then others may come before it, launched as the whole is
        best = fastest(_in_parts(problem, tile, cluster, params, every))
    best = fastest(ways([best.tiled], [Launch(x.dependent, best.launch.parts) for x in _EITHER]))
    return [whole, Candidate(best.params, best.cost, best.terms)]


def _deferred(problem: Problem, whole: Candidate) -> Candidate:
    """The same with each tile stored during the next one, where there is such a kernel. One buffer
    does, as there is a step of the main loop for each chunk.

    Of groups, and of products alone and rows that are added, since no others were measured; where
    there are no groups warpgroups in turns are as fast as any that share a tile (0008). Nor in
    narrow chunks.
    """
    params = replaced(whole.params, deferred_stores=True, epilogue_stages=1)
    narrow = chunk_columns(params, *problem.results) < DEFERRED_COLUMNS
    more = problem.matrices or (problem.work and not problem.added)
    if narrow or more or refusal(problem, params):
        return whole
    return Candidate.by_laws(problem, params)


def _in_order(problem: Problem, whole: Candidate) -> Candidate:
    """The same with small groups behind the others, where these are several tiles."""
    params = replaced(whole.params, delayed_groups=delayed(problem, whole.params))
    return Candidate(params, whole.cost, whole.terms)


def _hinted(problem: Problem, params: MatmulParams) -> MatmulParams:
    """The same, and where memory decides, of aligned rows, the L2 is asked for a CTA's first steps
    before the grid in front has ended. Elsewhere these lines only stand in front of those that are
    loaded (0011).
    """
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    listed = problem.m_entries or problem.n_entries or problem.k_entries
    if problem.grouped or listed or not params.programmatic_dependent_launch:
        steps = 0
    elif problem.computed is None:
        steps = stages if asks_early(problem) else 0
    else:
        once = CachePolicy.EvictFirst in (params.cache_policies.a, params.cache_policies.b)
        early = once and memory_decides(problem) and not problem.promotion
        steps = WIDENED_STEPS.get(problem.computed.dtype.element.bits, 0) * early
    return replaced(params, prefetched_steps=steps)


def _parted(problem: Problem, whole: Candidate) -> list[InParts]:
    """Parts of K that all have a place at the same time, added up by who has the last part of a
    tile, or by a kernel behind.

    Not of several products: what adds up parts has room for one accumulator. Nor where warpgroups
    share slices of K, which are parts already.
    """
    params = whole.params
    if problem.products > 1 or params.along_k > 1:
        return []
    steps = problem.steps(params.output_tile.k)
    ctas = params.cluster_dims.m * params.cluster_dims.n
    clusters, at_once = whole.cost.tiles // ctas, places(problem.sms, ctas)
    modes = SplitKMode if in_parts_at_all(problem) else (SplitKMode.Serial,)
    return list(product(modes, splits(problem.sms, clusters, at_once, steps)))


def _in_parts(
    problem: Problem, tile: Tile, cluster: ClusterDims, whole: MatmulParams, some: list[InParts]
) -> Iterator[Way]:
    """A tile with K in some parts. Launched as the whole is: how many parts there are does not
    follow from that.
    """
    dependent = whole.programmatic_dependent_launch
    for mode, same in groupby(some, key=itemgetter(0)):
        launches = [Launch(dependent, parts) for _, parts in same]
        found = [whole] if mode is SplitKMode.Serial else _storing(problem, tile, cluster, whole)
        tiles = [tiled(problem, in_parts(params, launches[0].parts)) for params in found]
        yield from ways(tiles, launches)


def _storing(
    problem: Problem, tile: Tile, cluster: ClusterDims, whole: MatmulParams
) -> list[MatmulParams]:
    """The parameters of a tile whose parts of K are results; none where they cannot be. Those of
    exchanged tiles threads store themselves, eight of them a sector of 32 bytes.
    """
    kept = whole.cache_policies, whole.l2_promotions
    found = made(stored_in_parts(problem), tile, cluster, *kept)[:1]
    return [replaced(params, splitk_mode=SplitKMode.Parallel) for params in found]


def _clusters(problem: Problem, tile: Tile) -> list[ClusterDims]:
    """Clusters of such tiles that are candidates: with a tile and a multiprocessor for every CTA,
    and of large tiles unless what each CTA asks for itself is dear.
    """
    if tile.m * tile.n < CLUSTERED and not asks_dearly(problem):
        return [ClusterDims()]
    most_m, most_n = -(-problem.m // tile.m), -(-problem.n // tile.n)
    fitting = [c for c in CLUSTERS if c.m <= most_m and c.n <= most_n and c.m * c.n <= problem.sms]
    return fitting or [ClusterDims()]
