"""What memory takes for a kernel's bytes, by how many CTAs ask for them (H200, 2026-11-22).

Where all SMs have a tile, bytes come as fast as memory has them. Where a round of tiles has fewer
than there are SMs, what an SM gets limits it, and where CTAs lie close to each other they get less.
They do that in the last of several rounds, and in a single one that is launched dependently: its
CTAs come where those of the kernel in front have left, which makes the same SMs free together.

Bytes for which a second CTA asks while they are on their way take memory's time once more in part;
a multicast copy is one request.
"""

from __future__ import annotations

from functools import lru_cache

from wsched.choose.gpus import GPUS
from wsched.choose.problem import Problem
from wsched.choose.shape import Number, either, least, most
from wsched.schedule.matmul.params import MatmulParams

__all__ = [
    "L2_KEEPS", "OTHER_BYTES_PER_US", "bytes_per_us", "least_bytes", "memory_bytes", "moved_us",
    "repeated_bytes", "result_bytes", "stream_us",
]  # fmt: skip

BYTES_PER_US = 4.36e6
"""Of an H200's memory: 28 672 x 8192 weights come at 4.38e6 between start and end."""

OTHER_BYTES_PER_US = {
    GPUS["H200 NVL"].name: BYTES_PER_US, GPUS["H100"].name: 2.95e6,
    GPUS["H100 PCIe"].name: 1.77e6, GPUS["B200"].name: 7.67e6,
}  # fmt: skip
"""Of other devices' by their names; an H100's from 40 drawn problems, with an H200's rate it was
told to take 10 % less in the mean, that of an H100 PCIe in proportion to its data sheet; an H200
NVL has an H200's memory. Of a B200 what its bus can carry, 7680 bits at 3996 MHz, twice a cycle
(pytorch/ao, pull request 4002)."""

START_US = 1.1
"""Until the first bytes are there, and behind the last."""

APART_BYTES, CLOSE_BYTES, CLOSE_BYTES_IN_ALL = 93e3, 36.5e3, 3.15e6
"""Bytes in a microsecond that come to an SM whose neighbours are idle, to one among many that are
not, and to all of a last round (28 of them 93e3 each, 52 of them 60e3, 80 to 96 of them 38e3)."""

L2_KEEPS = 0.8
"""Part of the L2 up to which it holds what is read again."""

REPEATED = 0.33
"""Share of its time that a byte takes for which others ask as well, without a cluster: two tiles of
8 columns for 16 rows 35.9 us where one of 16 takes 29.9; 192x40 in two parts of K 21.0, in clusters
that share the weights 17.2."""


def repeated_bytes(problem: Problem, readers_a: Number, readers_b: Number) -> Number:
    """Bytes of operands for which more than one asks.

    Args:
        problem: says how large they are.
        readers_a: clusters that ask for the same bytes of A, those along N.
        readers_b: of B, those along M.

    Returns:
        Each byte at most once, however many ask: the third is served from the L2 as the second is.
    """
    a, b = problem.operand_bytes
    return a * (1 - 1 / most(readers_a, 1)) + b * (1 - 1 / most(readers_b, 1))


@lru_cache(maxsize=1024)
def least_bytes(problem: Problem) -> int:
    """Bytes that are moved where each operand is read once."""
    return sum(problem.operand_bytes) + result_bytes(problem)


def result_bytes(problem: Problem) -> int:
    """Bytes of the results and of matrices that the epilogue reads."""
    matrices = (*problem.results, *problem.matrices)
    return problem.batch * problem.m * problem.n * sum(t.bytes for t in matrices)


@lru_cache(maxsize=1024)
def moved_us(problem: Problem) -> float:
    """Microseconds to move everything once, with all SMs."""
    return START_US + least_bytes(problem) / bytes_per_us(problem)


def stream_us(
    problem: Problem, shares: Number, places: Number, dependent: bool, repeated: Number = 0.0
) -> Number:
    """Microseconds to move everything once in so many equal ``shares``.

    Args:
        problem: what is moved.
        shares: tiles, or parts of them.
        places: CTAs that run at the same time.
        dependent: whether the kernel is launched dependently.
        repeated: the :func:`repeated_bytes`.
    """
    full, last = divmod(shares, places)
    each = (least_bytes(problem) + REPEATED * repeated) / most(shares, 1)
    rate = bytes_per_us(problem)
    rounds = full * places * each / rate
    behind = most(CLOSE_BYTES, least(APART_BYTES, CLOSE_BYTES_IN_ALL / most(last, 1)))
    close = either(2 * last > problem.sms, CLOSE_BYTES, APART_BYTES) if dependent else APART_BYTES
    end = most(last * each / rate, each / either(full > 0, behind, close))
    return START_US + rounds + either(last > 0, end, 0.0)


def bytes_per_us(problem: Problem) -> float:
    """Bytes in a microsecond of the device's memory; of one that is not known, of an H200's."""
    return OTHER_BYTES_PER_US.get(problem.gpu, BYTES_PER_US)


def memory_bytes(problem: Problem, params: MatmulParams, tiles_m: int, tiles_n: int) -> int:
    """Bytes from memory: B again for each group of tile rows, unless the L2 keeps it; of groups of
    rows, whose tiles of a strip of B follow each other, A for each such strip.
    """
    size_a, size_b = problem.element_bytes
    a = int(problem.a_count * problem.m * problem.k * size_a)
    b = int(problem.b_count * problem.n * problem.k * size_b)
    traversed = params.grid_traversal_factor[0] * params.cluster_dims.m
    strips = -(-tiles_n // params.cluster_dims.n), -(-tiles_m // traversed)
    by_columns = problem.grouped == "m"
    again, once, passes = (a, b, strips[0]) if by_columns else (b, a, strips[1])
    if again < L2_KEEPS * problem.l2_bytes:
        passes = 1
    return problem.batch * (once + again * max(passes, 1)) + result_bytes(problem)
