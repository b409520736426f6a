"""What it takes threads to compute an operand."""

from __future__ import annotations

from lowering.target.ptx import WARPGROUP
from wsched.choose.problem import Problem
from wsched.choose.shape import Number, Shape, either

__all__ = ["computing_cycles"]

ISSUED, SLICE, WGMMA, K_BYTES, ROWS = 0.7, 240, 36, 32, 64
"""Share of the instructions that an SM's schedulers could issue, where several warpgroups compute
A; cycles that a step takes in any case, in which no warp has anything to issue: for its barriers,
its first loads and letting go of its stages; cycles of a warpgroup for each of its wgmmas, of 32
bytes of K and 64 rows, with what it waits for in front. Fitted to 27 kernels of ``python -m
wsched.bench.weights`` (H200, 2026-11-22), 5.4 % in root mean square; the note has the table."""


def computing_cycles(problem: Problem, shape: Shape) -> Number:
    """Cycles of a step in which threads compute A: as many instructions as their schedulers issue,
    of a single warpgroup half as many, which nobody runs beside; and waits, which many elements of
    a step share: a slice of 128 of K takes less than two of 64.
    """
    if problem.computed is None:
        return 0.0
    issued = shape.m * shape.k * shape.across * problem.computed.work / WARPGROUP
    wgmmas = shape.k * problem.operand.bytes // K_BYTES * (shape.m // ROWS) * shape.across
    share = either(shape.warpgroups == 1, ISSUED / 2, ISSUED)
    return SLICE + issued / share + wgmmas / shape.warpgroups * WGMMA
