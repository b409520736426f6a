"""Operands that TMA cannot read: copies and a kernel by TMA, or a kernel whose threads load them.

A copy moves an operand three times, and TMA then loads it at full speed for each tile that reads
it. Threads load it once, at the speed of a few bytes for each instruction, again for each tile. So
threads win where few tiles read a large operand. None of the constants here has been measured
(``python -m wsched.bench.unaligned`` measures both ways), so threads have to win clearly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lowering.ground.frozen import replaced
from lowering.target import ptx
from wsched.choose.copy_cost import copy_us
from wsched.choose.problem import Problem
from wsched.schedule.matmul.params import ClusterDims, MatmulParams, ThreadLoads

__all__ = ["LEAST_BYTES", "SURE", "are_large", "copied_us", "thread_cycles", "variants"]

PIECE, LOAD_LATENCY, TOGETHER = 8.0, 900.0, 32
"""Cycles of a warp for a piece, to load and to store it; from the L2 or memory into registers; and
the pieces that a thread has on their way at once."""

LEAST_BYTES = 16 * 2**20
"""Bytes of operands below which copies stay: what is small is a matter of launches."""

SURE = 1.25
"""How many times faster threads have to be predicted."""

BY_TMA = ThreadLoads()
"""Threads load nothing."""


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand of the product that is computed: rows of its tile, bytes at once, how many."""

    rows: int
    piece: int
    count: int


def thread_cycles(problem: Problem, params: MatmulParams) -> float:
    """Cycles for which the warpgroups that load are busy with a stage; 0 where none do.

    Args:
        problem: the product that is computed, exchanged where the parameters say so.
        params: the schedule.
    """
    loads, tile, size = params.thread_loads, params.output_tile, problem.operand.bytes
    sides = (_Side(tile.m, loads.a, problem.a_count), _Side(tile.n, loads.b, problem.b_count))
    cycles = 0.0
    for side in sides:
        if side.piece:
            threads = ptx.WARPGROUP * loads.warpgroups
            pieces = side.count * side.rows * tile.k * size / side.piece / threads
            cycles += pieces * PIECE + max(1.0, pieces / TOGETHER) * LOAD_LATENCY
    return cycles


def copied_us(problem: Problem, loads: ThreadLoads = BY_TMA) -> float:
    """Microseconds of the copies of operands that TMA cannot read and ``loads`` leaves to it."""
    a, b = _bytes(problem)
    left = [n for n, here in ((a, loads.a), (b, loads.b)) if n and not here]
    return sum(copy_us(2 * n) for n in left)


def _bytes(problem: Problem) -> tuple[int, int]:
    """Bytes of the As and of the Bs that TMA cannot read, but threads can."""
    a, b = problem.operand_bytes
    return a * (problem.thread_a > 0), b * (problem.thread_b > 0)


def are_large(problem: Problem) -> bool:
    """Whether an operand that TMA cannot read and threads can is worth more than a copy's launch.

    Args:
        problem: whose operands they are.
    """
    return max(_bytes(problem)) >= LEAST_BYTES


def variants(problem: Problem, found: Iterable[MatmulParams]) -> Iterator[MatmulParams]:
    """Schedules whose threads load what TMA cannot read of a large operand, made of others.

    Clusters share what TMA loads, so those without are taken. Where both operands cannot be read,
    threads load both or the larger one.
    """
    if not are_large(problem):
        return
    a, b = _bytes(problem)
    both = (problem.thread_a, problem.thread_b)
    larger = (problem.thread_a, 0) if a > b else (0, problem.thread_b)
    for params in found:
        if params.cluster_dims != ClusterDims():
            continue
        for sides in dict.fromkeys((both, larger)):
            mine = sides[::-1] if params.exchange_operands else sides
            for groups in (1, 2):
                yield replaced(params, thread_loads=ThreadLoads(*mine, groups), prefetched_steps=0)
