"""What memory takes for a kernel's bytes, by how many CTAs ask for them (H200, 2026-11-22).

Where all SMs have a tile, bytes come as fast as memory has them. Where a round of tiles has fewer
than there are SMs, what an SM gets limits it, and where CTAs lie close to each other they get less.
They do that in the last of several rounds, and in a single one that is launched dependently: its
CTAs come where those of the kernel in front have left, which makes the same SMs free together.
"""

from __future__ import annotations

from wsched.choose.problem import Problem

__all__ = ["least_bytes", "moved_us", "result_bytes", "stream_us"]

BYTES_PER_US = 4.36e6
"""Of memory: 28 672 x 8192 weights come at 4.38e6 between start and end."""

START_US = 1.1
"""Until the first bytes are there, and behind the last."""

APART_BYTES, CLOSE_BYTES, CLOSE_BYTES_IN_ALL = 93e3, 36.5e3, 3.15e6
"""Bytes in a microsecond that come to an SM whose neighbours are idle, to one among many that are
not, and to all of a last round (28 of them 93e3 each, 52 of them 60e3, 80 to 96 of them 38e3)."""


def least_bytes(problem: Problem) -> float:
    """Bytes that are moved where each operand is read once."""
    rows = problem.a_count * problem.m + problem.b_count * problem.n
    operands = problem.batch * rows * problem.k * problem.operand.bytes
    return operands + result_bytes(problem)


def result_bytes(problem: Problem) -> int:
    """Bytes of the results and of matrices that the epilogue reads."""
    matrices = (*problem.results, *problem.matrices)
    return problem.batch * problem.m * problem.n * sum(t.bytes for t in matrices)


def moved_us(problem: Problem) -> float:
    """Microseconds to move everything once, with all SMs."""
    return START_US + least_bytes(problem) / BYTES_PER_US


def stream_us(problem: Problem, shares: int, places: int, dependent: bool) -> float:
    """Microseconds to move everything once in so many equal ``shares``.

    Args:
        problem: what is moved.
        shares: tiles, or parts of them.
        places: CTAs that run at the same time.
        dependent: whether the kernel is launched dependently.
    """
    full, last = divmod(shares, places)
    each = least_bytes(problem) / max(shares, 1)
    rounds = full * places * each / BYTES_PER_US
    if not last:
        return START_US + rounds
    if full:
        rate = max(CLOSE_BYTES, min(APART_BYTES, CLOSE_BYTES_IN_ALL / last))
    else:
        rate = CLOSE_BYTES if dependent and 2 * last > problem.sms else APART_BYTES
    return START_US + rounds + max(last * each / BYTES_PER_US, each / rate)
