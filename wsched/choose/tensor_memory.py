"""Tiles for a GPU that sums up in tensor memory, each with as many stages as fit."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.errors import ScheduleError
from lowering.ground.frozen import replaced
from wsched.choose.problem import Problem, demands
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import (
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaArch,
    MmaMacro,
    SupportedVectorization,
    TilingStrategy,
)
from wsched.schedule.matmul.tiles import fit_stages

__all__ = ["tried_in_tensor_memory"]

ROWS = (256, 128)
COLUMNS = (256, 192, 128, 96, 64, 32, 16)
"""Rows and columns of a CTA's tile, the largest first: of equals the first is taken."""


def tried_in_tensor_memory(problem: Problem) -> Iterator[MatmulParams]:
    """Legal schedules, those with the largest tiles first; UnsupportedError for a problem that none
    is built for.
    """
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
    dealt = TilingStrategy.DistributeTilesAcrossSMs
    if problem.grouped:  # which tiles there are is known at run time
        dealt = TilingStrategy.DistributeTilesDynamically
    base = MatmulParams(
        tile_sizes=MatMulTileOptions(GemmTile(m, n, k), warp),
        mma_macro=MmaMacro(warp.m, n, arch=MmaArch[problem.target.mma.macro]),
        tiling_strategy=dealt,
        grid_traversal_factor=(1, 1) if problem.grouped else (8, 1),
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
