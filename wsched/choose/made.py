"""The parameters of a tile in a cluster: as many stages as fit, and whether that is legal."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.frozen import replaced
from wsched.choose.crowding import in_few_stages
from wsched.choose.problem import ALIGNED, Problem, demands
from wsched.choose.tiles import TRAVERSAL, Tile
from wsched.schedule.matmul.chunks import chunk_columns, unboxed
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import (
    CachePolicies,
    ClusterDims,
    GemmTile,
    L2Promotions,
    MatmulParams,
    SupportedVectorization,
    TileRasterizationOrder,
    TilingStrategy,
)
from wsched.schedule.matmul.tiles import fit_stages, with_tile

__all__ = ["is_legal", "made", "refusal"]


def made(
    problem: Problem, tile: Tile, cluster: ClusterDims, policies: CachePolicies,
    promotions: L2Promotions,
) -> tuple[MatmulParams, ...]:  # fmt: skip
    """The parameters of a tile in a cluster, behind them those with fewer stages where these may be
    faster; none if not legal.
    """
    return _made(_alike(problem), tile, cluster, policies, promotions)


@lru_cache(maxsize=4096)
def _alike(problem: Problem) -> Problem:
    """The problem that stands for all whose kernels are legal alike: of its extents only the
    alignment of ``n`` is left, of rows in memory nothing.
    """
    columns = tuple(sorted({n % 16 + 16 for n in problem.n_entries}))
    return replaced(
        problem, m=1, n=problem.n % 16 + 16, k=1, batch=1, m_entries=(), n_entries=columns,
        k_entries=(), align_a=ALIGNED, align_b=ALIGNED,
    )  # fmt: skip


@lru_cache(maxsize=2**15)
def _made(
    problem: Problem, tile: Tile, cluster: ClusterDims, policies: CachePolicies,
    promotions: L2Promotions,
) -> tuple[MatmulParams, ...]:  # fmt: skip
    """The same; of the extents only the alignment of ``n`` counts."""
    if (alone := _fitting(problem, tile)) is None:
        return ()
    found = replaced(alone, cluster_dims=cluster, cache_policies=policies, l2_promotions=promotions)
    return in_few_stages(problem, found) if is_legal(problem, found) else ()


def is_legal(problem: Problem, params: MatmulParams) -> bool:
    """Whether there is a kernel of such parameters."""
    try:
        require_legal_for(demands(problem), params)
    except ScheduleError:
        return False
    return True


def refusal(problem: Problem, params: MatmulParams) -> str:
    """Why there is no kernel of parameters that somebody asks for, be it that none is built; empty
    where there is one.
    """
    try:
        require_legal_for(demands(problem), params)
    except ScheduleError as e:
        return e.why
    except UnsupportedError as e:
        return str(e)
    return ""


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
