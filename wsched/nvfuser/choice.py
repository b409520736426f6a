"""Which schedule nvFuser's own kernels should have: wsched's question, with nvFuser's costs.

nvFuser's kernel differs from wsched's where it counts: it drains the tensor core after every k
step, no main loop hides its epilogue, it loads what a cluster could share twice, it is not launched
dependently, and rounds the tile grid up to the traversal. So the costs are its own
(:func:`ranked`), while the question is that of ``wsched.choose.heuristics``.

Ping-pong is never chosen: nvFuser's kernel has a race and gave wrong results
(design/performance.md). Neither is one tile per CTA, whose prologue is not hidden.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from lowering.ground.errors import UnsupportedError
from wsched.choose.cost_model import GHZ
from wsched.choose.heuristics import Tile
from wsched.choose.problem import Problem
from wsched.choose.step import FLOPS_PER_CYCLE
from wsched.fusion import DataType
from wsched.nvfuser.limits import STMATRIX, most_stages
from wsched.schedule.matmul.params import (
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    MatmulParams,
    SupportedVectorization,
    TileRasterizationOrder,
)
from wsched.schedule.matmul.tiles import with_tile

__all__ = ["Candidate", "candidates", "choose_params", "ranked"]

START_US, DRAIN, ELEMENT = 3.4, 320, 0.336
"""Microseconds of a launch with its prologue; cycles of a k step in which the tensor core is
drained; cycles for an element of a tile on one warpgroup, beside the wait for its store. From
nvFuser's default kernel (128x256x64 tiles, 3 stages) at 2048x2048x2048 and 4096x3584x512 (README,
Speed: 585 and 381 TFLOP/s), which power does not limit; 4096x4096x4096 then comes out at 0.90 of
what was measured, because power limits it."""

LATENCY, FILL_BYTES = 911, 75
"""Cycles of a copy from the L2, and bytes in a cycle: as in ``wsched.choose.cost_model``. A tile's
store is waited for at once, which takes as long as a copy."""

LEAST_STAGES = 3

MOST_ACCUMULATORS = 160
"""Registers of a thread for accumulators; beside them nvFuser's 64-bit indices need many."""

USUAL = Tile(128, 256, 2)

TILES = (
    *(Tile(128, n, 2) for n in (96, 128, 160, 192, 256)),
    Tile(256, 128, 2),
    *(Tile(64, n, 1, k=128) for n in (16, 32, 64)),
    *(Tile(64, n, 1) for n in (128, 256)),
    Tile(128, 128, 1),
)
"""Those that were fastest somewhere in wsched's kernels (60 shapes of model layers, H200)."""

GAIN = 0.03
"""Share of the time that another tile than nvFuser's has to win by: the model is not better."""

GROUPS = (8, 7, 6, 5, 4, 3, 2)
"""Rows of tiles visited together, preferred ones first; 8 as in ``wsched.choose.heuristics``."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """Tiles along M and N, and the cluster and order of visiting them."""

    m: int
    n: int

    @staticmethod
    def of(problem: Problem, tile: Tile) -> _Grid:
        """The grid of a problem's result."""
        return _Grid(-(-problem.m // tile.m), -(-problem.n // tile.n))

    @property
    def cluster(self) -> ClusterDims:
        """The largest of up to two CTAs that divides the grid, as nvFuser chooses it."""
        if self.n % 2 == 0:
            return ClusterDims(1, 2)
        return ClusterDims(2, 1) if self.m % 2 == 0 else ClusterDims(1, 1)

    @property
    def order(self) -> tuple[TileRasterizationOrder, int]:
        """Order and group: the largest group that divides the grid, which nvFuser rounds up to."""
        cluster = self.cluster
        rows, columns = self.m // cluster.m, self.n // cluster.n
        by_rows, by_columns = _group(rows), _group(columns)
        if by_columns > by_rows:
            return TileRasterizationOrder.ColumnMajor, by_columns
        return TileRasterizationOrder.RowMajor, by_rows


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tile with its stages."""

    tile: Tile
    stages: int


def _group(count: int) -> int:
    return next((g for g in GROUPS if count % g == 0), 1)


@lru_cache(maxsize=4096)
def choose_params(problem: Problem) -> MatmulParams:
    """The schedule for nvFuser's kernel: the predicted best, nvFuser's usual tile if it is close.

    The usual tile is 128x256x64 on two warpgroups, nvFuser's default wherever M and N are large.

    Raises:
        UnsupportedError: shared memory has no room for any tile.
    """
    found = _costs(problem)
    if not found:
        results = ", ".join(map(str, problem.results))
        raise UnsupportedError(f"an epilogue with results {results}", "smaller ones")
    best_us, best = found[0]
    for us, candidate in found:
        if candidate.tile == USUAL and us <= best_us * (1 + GAIN):
            best = candidate
            break
    return _params(problem, best)


def ranked(problem: Problem) -> list[tuple[float, MatmulParams]]:
    """Predicted microseconds and parameters of every candidate, best first."""
    return [(us, _params(problem, candidate)) for us, candidate in _costs(problem)]


def _costs(problem: Problem) -> list[tuple[float, Candidate]]:
    kept = problem.matrices, problem.unaligned is None
    tiles = candidates(problem.operand, problem.results, *kept)
    return sorted(((_us(problem, c), c) for c in tiles), key=lambda pair: pair[0])


@lru_cache(maxsize=64)
def candidates(
    operand: DataType,
    results: tuple[DataType, ...],
    matrices: tuple[DataType, ...],
    smem_epilogue: bool,
) -> tuple[Candidate, ...]:
    """Tiles for which registers and shared memory have room, with the stages that fit."""
    deep = [replace(t, k=128) for t in TILES if t.k == 64]
    made = []
    for tile in (*TILES, *deep):
        base = MatmulParams(use_smem_epilogue=smem_epilogue)
        params = with_tile(base, GemmTile(tile.m, tile.n, tile.k), tile.warpgroups, False)
        stages = most_stages(params, operand, results, matrices)
        rows = tile.m // tile.warpgroups
        if stages >= LEAST_STAGES and rows * tile.n <= MOST_ACCUMULATORS * 128:
            made.append(Candidate(tile, stages))
    return tuple(made)


def _us(problem: Problem, candidate: Candidate) -> float:
    """Microseconds of nvFuser's kernel on an H200; power and memory limits are left out.

    They are the same for every tile that is a candidate for large problems.
    """
    tile = candidate.tile
    grid = _Grid.of(problem, tile)
    cluster = grid.cluster
    ctas = cluster.m * cluster.n
    clusters = -(-grid.m // cluster.m) * -(-grid.n // cluster.n)
    rounds = -(-clusters // max(problem.sms // ctas, 1))
    steps = -(-problem.k // tile.k)
    tensor = 2 * tile.m * tile.n * tile.k / FLOPS_PER_CYCLE
    fill = (tile.m + tile.n) * tile.k * problem.operand.bytes / FILL_BYTES
    latency = (LATENCY + fill + tensor + DRAIN) / candidate.stages
    step = max(tensor + DRAIN, fill, latency)
    values = sum(t.bytes for t in (*problem.results, *problem.matrices)) / 2
    epilogue = LATENCY + ELEMENT * tile.m * tile.n / tile.warpgroups * values
    return START_US + rounds * (steps * step + epilogue) / (GHZ * 1e3)


def _params(problem: Problem, candidate: Candidate) -> MatmulParams:
    """The parameters of a candidate."""
    tile = candidate.tile
    grid = _Grid.of(problem, tile)
    order, group = grid.order
    base = MatmulParams(
        cta_order=order,
        grid_traversal_factor=(group, 1),
        cluster_dims=grid.cluster,
        use_smem_epilogue=problem.unaligned is None,
        use_ldst_matrix=problem.m % STMATRIX == 0 and problem.n % STMATRIX == 0,
        circular_buffer_options=CircularBufferOptions(
            smem_circular_buffer_stage=candidate.stages, smem_circular_buffer_prefetch_gap=1
        ),
        supported_vec_size=SupportedVectorization(1 if problem.n % 2 else 2),
        wgmma_in_flight=0,
    )
    return with_tile(base, GemmTile(tile.m, tile.n, tile.k), tile.warpgroups, ping_pong=False)
