"""What pointwise kernels compute, in instructions, and what that costs beside memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import hypot, prod

from wsched.fusion.sweep import ROW_REDUCTIONS, Sweep, Term

__all__ = ["INSTRUCTIONS", "busy_us", "instructions_of", "swept_instructions"]

INSTRUCTIONS: Mapping[str, int] = {
    "cast": 0, "set": 0, "broadcast": 0, "broadcast_in_dim": 0, "expand": 0, "permute": 0,
    "reshape": 0, "squeeze": 0, "slice": 0, "stride_order": 0, "cat": 0, "pad": 0,
    "div": 14, "reciprocal": 14, "sqrt": 13, "rsqrt": 4,
    "exp": 8, "exp2": 4, "expm1": 28, "log": 25, "log2": 27, "log10": 26, "log1p": 29, "pow": 90,
    "sigmoid": 4, "silu": 5, "tanh": 15, "erf": 21, "erfc": 45, "sin": 27, "cos": 27,
    "random": 40, "uniform": 40, "gelu": 26, "var_mean": 4, "welford": 4, "var": 4,
}  # fmt: skip
"""For an element, of operations that take other than one: what nvdisasm shows of sweeps of each,
beside the same sweep without it. nvFuser's kernels call the same functions of CUDA's, and one sine
of theirs takes as long as one of wsched's own here."""

_ISSUED_PER_US = 132 * 128 * 1755.0
"""Lanes of instructions in a microsecond: four warps' in each cycle on 132 multiprocessors."""


def busy_us(memory_us: float, instructions: float) -> float:
    """A kernel that moves bytes for so long and issues so many lanes of instructions.

    Neither hides the other: gelu of 67 MB has 31.2 us of bytes, 29.4 of instructions and took 42.7
    (nvFuser's 41.4), nvFuser's softmax of 268 MB 62.4, 56.8 and 83.5, its sine 31.2, 31.7 and 45.7
    (H200, ``python -m wsched.bench.sweeps``, 2026-11-22).
    """
    return hypot(memory_us, instructions / _ISSUED_PER_US)


def instructions_of(operations: Iterable[tuple[str, int]]) -> float:
    """Lanes of instructions of operations, each with its elements."""
    return float(sum(INSTRUCTIONS.get(op, 1) * elements for op, elements in operations))


def swept_instructions(sweep: Sweep, sizes: tuple[int, ...]) -> float:
    """The same of a sweep over an index space of these sizes."""
    return instructions_of(
        (t.op, _elements(sweep, t, sizes)) for t in sweep.terms if t.op != "input"
    )


def _elements(sweep: Sweep, term: Term, sizes: tuple[int, ...]) -> int:
    dims = term.dims | sweep.over if term.op in ROW_REDUCTIONS else term.dims
    return prod(sizes[d] for d in dims)
