"""What it takes threads to compute an operand."""

from __future__ import annotations

from lowering.target.ptx import WARPGROUP
from wsched.choose.problem import Problem
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["computing_cycles"]

ISSUED, PIECE, K_BYTES = 0.7, 24, 32
"""Share of the instructions that an SM's schedulers could issue, where two warpgroups compute A;
cycles of a warpgroup's wait, fence and commit for each 32 bytes of K. Not measured yet."""


def computing_cycles(problem: Problem, params: MatmulParams) -> float:
    """Cycles of a step in which threads compute A: as many instructions as their schedulers issue,
    of a single warpgroup half as many, which nobody runs beside.
    """
    if problem.computed is None:
        return 0.0
    tile = params.output_tile
    issued = tile.m * tile.k * params.across * problem.computed.work / WARPGROUP
    pieces = tile.k * problem.operand.bytes // K_BYTES
    alone = params.warpgroups == 1
    return issued / (ISSUED / 2 if alone else ISSUED) + pieces * PIECE / min(params.warpgroups, 2)
