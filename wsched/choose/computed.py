"""What it takes threads to compute an operand."""

from __future__ import annotations

from lowering.target.ptx import WARPGROUP
from wsched.choose.problem import Problem
from wsched.choose.shape import Number, Shape, either

__all__ = ["computing_cycles"]

ISSUED, ALONE, SLICE, BESIDE, MULTIPLIED = 0.453, 0.379, 239, 0.085, 2048
"""Share of the instructions that an SM's schedulers could issue, where several warpgroups compute
A: most of them are of pipes that take one every other cycle; where one does; cycles that a step
takes in any case, in which no warp has anything to issue: for its barriers, its first loads and
letting go of its stages; cycles that threads lose for each cycle of the tensor cores, which read
and write the same registers; products of 16 bits in a cycle of those. Fitted, with the work of an
element, to 263 kernels of weights of 4 and 8 bits and 16 to 128 rows (H200, 2026-11-28), 4.4 % in
root mean square; the note has the table."""


def computing_cycles(problem: Problem, shape: Shape) -> Number:
    """Cycles of a step in which threads compute A: as many instructions as their schedulers issue,
    of a single warpgroup fewer, which nobody runs beside, beside what they wait for once in a step:
    a slice of 128 of K takes less than two of 64.
    """
    if problem.computed is None:
        return 0.0
    elements = shape.m * shape.k * shape.across
    share = either(shape.warpgroups == 1, ALONE, ISSUED)
    multiplied = shape.m * shape.n * shape.k * problem.operand.bytes / 2 / MULTIPLIED
    return SLICE + elements * problem.computed.work / WARPGROUP / share + BESIDE * multiplied
