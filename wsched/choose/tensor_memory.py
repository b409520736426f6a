"""Tiles for a GPU that sums up in tensor memory, each with as many stages as fit."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.errors import UnsupportedError
from lowering.ground.frozen import replaced
from wsched.choose.candidate import Candidate
from wsched.choose.cost_model import cost
from wsched.choose.made import is_legal
from wsched.choose.problem import Problem
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

__all__ = ["in_tensor_memory", "tried_in_tensor_memory"]

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
            if made is not None and is_legal(problem, made):
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


def in_tensor_memory(problem: Problem) -> tuple[Candidate, ...]:
    """The candidates of a GPU on which nothing was measured; of equals the largest tile first.

    Raises:
        UnsupportedError: its instructions do not multiply the operands, or no tile has room.
    """
    mma, operand = problem.target.mma, problem.operand.element
    if mma.multiplying(operand, operand) is None:
        what = f"{mma.name} of {operand.value} by {operand.value} on {problem.target.arch}"
        raise UnsupportedError(what, " or ".join(mma.types))
    found = [Candidate(p, cost(problem, p)) for p in tried_in_tensor_memory(problem)]
    if not found:
        what = f"this problem with accumulators in the tensor memory of {problem.target.arch}"
        raise UnsupportedError(what, "tiles that shared memory holds in stages enough")
    return tuple(sorted(found, key=lambda c: (c.cost.us, c.cost.us - c.cost.memory_us)))
