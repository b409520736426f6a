"""Which schedule for which problem: MatmulParams from the extents and the device.

A schedule that was measured for the problem is taken where a table has one (``wsched tune``).
Else :data:`TILES` in clusters of each of :data:`CLUSTERS` are the candidates; the cost model
predicts the time of each, launched dependently or not, and those that it puts in front are ranked
by what was measured of schedules like them (:mod:`wsched.choose.learned.order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.frozen import replaced
from lowering.ground.log import log
from wsched.choose.bound import least_us
from wsched.choose.candidate import Candidate
from wsched.choose.copy_engine import asks_dearly, policies, promotions, streams
from wsched.choose.cost import Cost
from wsched.choose.cost_model import cost, places
from wsched.choose.crowding import in_few_stages
from wsched.choose.learned.order import in_order, near
from wsched.choose.problem import Problem, demands
from wsched.choose.stored_parts import in_parts_at_all, stored_in_parts
from wsched.choose.tensor_memory import in_tensor_memory
from wsched.choose.thread_loads import SURE, are_large, copied_us, variants
from wsched.choose.tiles import CLUSTERS, TILES, TRAVERSAL, Tile, splits, tiles_for, tiles_of_groups
from wsched.choose.tuned.lookup import Hit, lookup
from wsched.schedule.matmul.chunks import chunk_columns, unboxed
from wsched.schedule.matmul.early import in_parts, launched
from wsched.schedule.matmul.kernel_options import thread_bytes
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import (
    ClusterDims,
    GemmTile,
    MatmulParams,
    SplitKMode,
    SupportedVectorization,
    ThreadLoads,
    TileRasterizationOrder,
    TilingStrategy,
)
from wsched.schedule.matmul.tiles import fit_stages, with_tile

__all__ = [
    "CLUSTERS", "TILES", "Candidate", "Taken", "Tile", "candidates", "choose_params", "least_cost",
    "modelled", "ranked", "taken", "thread_loaded",
]  # fmt: skip


CLUSTERED = 128 * 128
"""Elements of the least tile for which a cluster pays where rows are aligned."""


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
        return Taken(_grouped(problem), "by the cost model")
    hit = lookup(problem) if tuned else None
    if hit is not None:
        return Taken(hit.entry.params, f"the fastest measured on {hit.gpu}, {hit.file}", hit)
    by_threads = thread_loaded(problem)
    if by_threads is not None:
        return Taken(by_threads.params, "by the cost model, operands loaded by threads")
    return Taken(modelled(problem), "by the cost model")


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
    legal = (p for p in tried if _legal(problem, p))
    priced = [(c, c.cost.us + copied_us(problem, ThreadLoads(*thread_bytes(c.params))))
              for c in (Candidate(p, cost(problem, p)) for p in legal)]  # fmt: skip
    best, us = min(priced, key=lambda x: x[1], default=(None, inf))
    return best if us * SURE <= by_tma else None


def _grouped(problem: Problem) -> MatmulParams:
    """The schedule for groups with the smallest predicted time.

    Raises:
        UnsupportedError: shared memory has no room for a tile.
    """
    found = candidates(problem)
    if not found:
        what = f"groups with {len(problem.matrices)} matrices in the epilogue"
        raise UnsupportedError(what, "as many as shared memory holds beside a tile")
    return found[0].params


def modelled(problem: Problem) -> MatmulParams:
    """The first of the :func:`candidates`."""
    return _searched(problem)[0].params


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
    least = least_us(problem, tried)
    best, further, found = inf, near(problem), dict[int, list[Candidate]]()
    for i in sorted(range(len(tried)), key=least.__getitem__):
        if least[i] > best * further:
            break
        found[i] = _priced(problem, *tried[i])
        best = min([best, *(c.cost.us for c in found[i])])
    every = [c for i in sorted(found) for c in found[i]] or list(candidates(problem))
    return in_order(problem, every)[0], min(every, key=lambda c: c.cost.by_laws)


def ranked(problem: Problem) -> list[tuple[float, MatmulParams]]:
    """Microseconds and parameters of every candidate, in the order of :func:`candidates`."""
    return [(c.cost.us, c.params) for c in candidates(problem)]


@lru_cache(maxsize=32)
def candidates(problem: Problem) -> tuple[Candidate, ...]:
    """Every candidate, best first: each tile once per cluster, and once in parts where that leaves
    fewer SMs idle.

    Of a batch-invariant problem those that sum along K in the one fixed order.

    Raises:
        UnsupportedError: there is none for an operand that is computed, or in tensor memory.
    """
    if problem.target.tensor_memory is not None:
        return in_tensor_memory(problem)
    found = (c for tried in _tried(problem) for c in _priced(problem, *tried))
    best = in_order(problem, list(found))
    if not best and problem.computed is not None:
        what = f"an operand that is computed from {problem.computed.dtype}, in no legal tile"
        raise UnsupportedError(what, "one whose rows and slices of K registers hold")
    return best


def _tried(problem: Problem) -> list[tuple[Tile, ClusterDims]]:
    """Tiles in clusters that are candidates where they are legal."""
    both, tiles = (problem, problem.exchanged), tiles_for(problem)
    if problem.grouped == "k":  # tiles have any number of steps: warpgroups that take turns do not
        tiles = tuple(t for t in tiles if not t.ping_pong)
    found = [(t, c) for t in tiles for c in CLUSTERS if _spans(both[t.exchanged], t, c)]
    return found + [(t, ClusterDims()) for t in tiles_of_groups(problem)]


def _priced(problem: Problem, tile: Tile, cluster: ClusterDims) -> list[Candidate]:
    """The candidates of a tile in a cluster: none, whole tiles, or these and parts of K."""
    ways = _launches(_alike(problem), tile, cluster)
    if not ways:
        return []
    computed = tile.of(problem)
    kept = {"cache_policies": policies(computed, tile, cluster),
            "l2_promotions": promotions(computed)}  # fmt: skip
    if any(getattr(ways[0], name) != value for name, value in kept.items()):
        ways = tuple(replaced(way, **kept) for way in ways)
    if _hints(computed):
        ways = tuple(_hinting(way) for way in ways)
    whole = _fastest(problem, ways)
    if problem.batch_invariant or problem.grouped:
        return [whole]
    parts = _parted(problem, tile, cluster, whole)
    if not parts:
        return [whole]
    best = _fastest(problem, parts).params
    return [whole, _fastest(problem, [launched(best, way) for way in (True, False)])]


def _hints(problem: Problem) -> bool:
    """Whether the L2 is asked for a CTA's first steps before the grid in front has ended: where
    memory decides, of one operand that is larger than the L2. Elsewhere these lines only stand in
    front of those that are loaded (0011). Not where threads widen what streams: hints are for what
    wgmma reads in shared memory.
    """
    if problem.computed is not None:
        return False
    listed = problem.m_entries or problem.n_entries or problem.k_entries
    return any(streams(problem)) and not (problem.grouped or listed)


def _hinting(params: MatmulParams) -> MatmulParams:
    """The same with hints for as many steps as the ring holds, where the kernel starts early."""
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    steps = stages * params.programmatic_dependent_launch
    return replaced(params, prefetched_steps=steps)


@lru_cache(maxsize=4096)
def _alike(problem: Problem) -> Problem:
    """The problem that stands for all whose kernels are legal alike: of its extents only the
    alignment of ``n`` is left.
    """
    columns = tuple(sorted({n % 16 + 16 for n in problem.n_entries}))
    return replaced(
        problem, m=1, n=problem.n % 16 + 16, k=1, batch=1, m_entries=(), n_entries=columns,
        k_entries=(),
    )  # fmt: skip


@lru_cache(maxsize=2**15)
def _launches(problem: Problem, tile: Tile, cluster: ClusterDims) -> tuple[MatmulParams, ...]:
    """The parameters of a tile in a cluster, launched dependently and not; none if not legal.

    Of the extents only the alignment of ``n`` counts.
    """
    if (made := _fitting(problem, tile)) is None:
        return ()
    found = made if cluster == made.cluster_dims else replaced(made, cluster_dims=cluster)
    if not _legal(problem, found):
        return ()
    each = in_few_stages(problem, found)
    return tuple(replaced(w, programmatic_dependent_launch=x) for w in each for x in (True, False))


def _legal(problem: Problem, params: MatmulParams) -> bool:
    try:
        require_legal_for(demands(problem), params)
    except ScheduleError:
        return False
    return True


def _fastest(problem: Problem, ways: Sequence[MatmulParams]) -> Candidate:
    """The parameters with the least cost; of equals the first."""
    return min((Candidate(p, cost(problem, p)) for p in ways), key=lambda c: c.cost.us)


def _parted(
    problem: Problem, tile: Tile, cluster: ClusterDims, whole: Candidate
) -> list[MatmulParams]:
    """The same with K in parts, where all parts have a place at the same time; added up by who has
    the last part of a tile, or by a kernel behind. Launched as the whole is: how many parts there
    are does not follow from that.

    Not of several products: what adds up parts has room for one accumulator. Nor where warpgroups
    share slices of K, which are parts already.
    """
    if problem.products > 1 or whole.params.along_k > 1:
        return []
    steps = problem.steps(whole.params.output_tile.k)
    ctas = whole.params.cluster_dims.m * whole.params.cluster_dims.n
    clusters, at_once = whole.cost.tiles // ctas, places(problem.sms, ctas)
    found = splits(problem.sms, clusters, at_once, steps)
    ways = [whole.params, *_storing(problem, tile, cluster, whole.params)] if found else []
    dependent = whole.params.programmatic_dependent_launch
    return [launched(in_parts(way, parts), dependent) for way in ways for parts in found]


def _storing(
    problem: Problem, tile: Tile, cluster: ClusterDims, whole: MatmulParams
) -> list[MatmulParams]:
    """The parameters of a tile whose parts of K are results; none where they cannot be. Those of
    exchanged tiles threads store themselves, eight of them a sector of 32 bytes.
    """
    if not in_parts_at_all(problem):
        return []
    kept = {"cache_policies": whole.cache_policies, "l2_promotions": whole.l2_promotions}
    ways = _launches(_alike(stored_in_parts(problem)), tile, cluster)[:1]  # `_parted` launches it
    return [replaced(way, splitk_mode=SplitKMode.Parallel, **kept) for way in ways]


@lru_cache(maxsize=4096)
def _fitting(problem: Problem, tile: Tile) -> MatmulParams | None:
    """The parameters of a tile; None where shared memory has no room for enough stages.

    Where shared memory has no room for the operands beside the epilogue, threads read its matrices
    themselves; where that is not enough, they store the results, too.
    """
    if tile.exchanged or tile.chunk or tile.apart:
        return _params(problem, tile)
    by_threads = replaced(problem, inputs=None if problem.inputs else problem.inputs)
    ways = (problem, by_threads, replaced(by_threads, smem_epilogue=False))
    made = (_params(way, tile) for way in ways)
    return next((params for params in made if params is not None), None)


def _params(problem: Problem, tile: Tile) -> MatmulParams | None:
    """The parameters of a candidate; None where shared memory has no room for enough stages, or
    chunks are too narrow for TMA.
    """
    computed = tile.of(problem)
    turned = tile.exchanged and any(r.bytes != 2 for r in problem.results)
    base = MatmulParams(
        grid_traversal_factor=TRAVERSAL if tile.n >= 16 else (1, 1),
        use_smem_epilogue=problem.smem_epilogue and problem.unaligned is None and not turned,
        supported_vec_size=SupportedVectorization(2 if problem.pairs and problem.n % 2 == 0 else 1),
        epilogue_input_stages=0 if problem.inputs is None else 2,
        batch_invariant=problem.batch_invariant,
        exchange_operands=tile.exchanged,
        epilogue_columns=tile.chunk,
    )
    if problem.grouped:
        base = replaced(base, **_dealt(problem, tile))
    made = with_tile(
        base,
        GemmTile(tile.m, tile.n, tile.k),
        tile.warpgroups,
        tile.ping_pong,
        tile.across,
        tile.along_k,
    )
    inputs = problem.inputs or ()
    columns = chunk_columns(made, *problem.results, *inputs, *problem.reductions.types)
    if unboxed(made, columns, *problem.results):
        return None
    return fit_stages(
        made, problem.operand, problem.results, inputs, n_major=computed.n_major,
        target=problem.target, counts=(computed.a_count, computed.b_count),
        reductions=computed.reductions, computed=computed.computed, apart=tile.apart,
    )  # fmt: skip


def _dealt(problem: Problem, tile: Tile) -> dict[str, Any]:
    """How tiles of groups are dealt out: those of one strip of a group's matrix after each other,
    so that it is read while the L2 has it. Where they are sums over groups, as any others.
    """
    strategy = {"tiling_strategy": TilingStrategy.DistributeTilesDynamically}
    if problem.grouped == "k":
        return strategy
    order = TileRasterizationOrder
    by_rows = (problem.grouped == "m") is not tile.exchanged
    return strategy | {
        "cta_order": order.ColumnMajor if by_rows else order.RowMajor,
        "grid_traversal_factor": (1, 1),
    }


def _spans(problem: Problem, tile: Tile, cluster: ClusterDims) -> bool:
    """Whether a cluster of such tiles is a candidate: a tile and a multiprocessor for every CTA,
    and large tiles unless what each CTA asks for itself is dear.
    """
    if cluster == ClusterDims(1, 1):
        return True
    if cluster.m * cluster.n > problem.sms:
        return False
    fills = problem.m > tile.m * (cluster.m - 1) and problem.n > tile.n * (cluster.n - 1)
    return fills and (asks_dearly(problem) or tile.m * tile.n >= CLUSTERED)
