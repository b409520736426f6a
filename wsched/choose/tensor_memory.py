"""Tiles for a GPU that sums up in tensor memory: what is known of it, and no measurement.

A tile takes as long as its products or its loads, whichever is longer, in every wave of tiles. The
instruction's rate is that of the data sheets: 16-bit products of 128 rows, n columns and 16 of K in
n / 2 cycles; a multiprocessor loads 64 bytes a cycle from the L2, a port's width.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.records import replaced
from wsched.choose.problem import Problem, demands
from wsched.schedule.matmul.instruction import sum_stages
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import (
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaArch,
    MmaMacro,
    SupportedVectorization,
)
from wsched.schedule.matmul.tiles import fit_stages

__all__ = ["choose_in_tensor_memory"]

ROWS = (256, 128)
COLUMNS = (256, 192, 128, 96, 64, 32, 16)
"""Rows and columns of a CTA's tile, the largest first: of equals the first is taken."""

LOADED = 64
"""Bytes a cycle that an SM gets from the L2 (assumed)."""

PRODUCTS = 4096
"""Products of 16-bit elements a cycle of an SM (data sheets of B200, dense)."""

OVERLAP = 1000
"""Cycles of a tile that nothing covers, the first loads and the last stores (assumed); more where
an accumulator has one stage."""


@lru_cache(maxsize=256)
def choose_in_tensor_memory(problem: Problem) -> MatmulParams:
    """The schedule with the least time by this reckoning.

    Raises:
        UnsupportedError: there is none for the problem.
    """
    found = [(_cycles(problem, p), n, p) for n, p in enumerate(_candidates(problem))]
    if not found:
        what = f"this problem with accumulators in the tensor memory of {problem.target.arch}"
        raise UnsupportedError(what, "tiles that shared memory holds in stages enough")
    return min(found, key=lambda f: f[:2])[2]


def _candidates(problem: Problem) -> Iterator[MatmulParams]:
    for m in ROWS:
        for n in COLUMNS:
            made = _params(problem, m, n)
            if made is None:
                continue
            try:
                require_legal_for(demands(problem), made)
            except ScheduleError:
                continue
            yield made


def _params(problem: Problem, m: int, n: int) -> MatmulParams | None:
    """The parameters of a tile with the most stages that fit; None where too few do."""
    k = 128 // problem.operand.bytes
    warp = GemmTile(problem.target.mma.m, n, k)
    base = MatmulParams(
        tile_sizes=MatMulTileOptions(GemmTile(m, n, k), warp),
        mma_macro=MmaMacro(warp.m, n, arch=MmaArch[problem.target.mma.macro]),
        grid_traversal_factor=(8, 1),
        use_smem_epilogue=problem.smem_epilogue and problem.unaligned is None,
        supported_vec_size=SupportedVectorization(2 if problem.pairs and problem.n % 2 == 0 else 1),
        epilogue_input_stages=0 if problem.inputs is None else 2,
        batch_invariant=problem.batch_invariant,
        num_registers=None,
    )
    by_threads = replaced(base, epilogue_input_stages=0)
    for tried, inputs in ((base, problem.inputs or ()), (by_threads, ())):
        found = fit_stages(
            tried, problem.operand, problem.results, inputs, n_major=problem.n_major,
            target=problem.target,
        )  # fmt: skip
        if found is not None:
            return found
    return None


def _cycles(problem: Problem, params: MatmulParams) -> float:
    tile = params.output_tile
    tiles = -(-problem.m // tile.m) * -(-problem.n // tile.n) * problem.batch
    products = tile.m * tile.n * tile.k / PRODUCTS
    loads = (tile.m + tile.n) * tile.k * problem.operand.bytes / LOADED
    alone = OVERLAP * (1 if sum_stages(params, problem.target) > 1 else 2)
    return -(-tiles // problem.sms) * (problem.steps(tile.k) * max(products, loads) + alone)
