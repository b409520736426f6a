"""What TMA takes to fill a stage, by how rows are aligned (``wsched bench tma``, H200, 2026-11-22).

A box is copied line by line, and what a line costs does not depend on its width, up to the 128
bytes of a swizzle span. Where rows do not begin with sectors of 32 bytes each line touches one
more, and comes at half the rate; where the L2 fetches 256 bytes at once, at less. In a cluster each
CTA asks for its share of the lines and receives all, which brings most of it back.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Protocol

from lowering.target.ptx import WIDEST_SWIZZLE
from wsched.choose.memory import least_bytes
from wsched.choose.problem import ALIGNED, Problem
from wsched.choose.shape import Number, Shape, either, least, most
from wsched.schedule.matmul.params import (
    CachePolicies,
    ClusterDims,
    L2Promotions,
)
from wsched.schedule.options import CachePolicy, TensorMapL2Promotion

__all__ = [
    "Extents", "asked_rate", "asks_dearly", "asks_early", "fill_cycles", "memory_decides",
    "policies", "promotions", "stored_columns", "streams",
]  # fmt: skip

TINY = sys.float_info.min
"""What is divided by where there is nothing."""

LINE = WIDEST_SWIZZLE
"""Bytes of a line, of a box as of the L2."""

ASKED_BYTES = {16: 32.0, 32: 41.0, 64: 50.0}
"""Most bytes in a cycle that an SM gets of lines for which it asks itself, by the alignment of the
rows. ``bench tma`` has 30, 54 and 61 (7.9, 14.2 and 16 TB/s of 132 SMs); beside wgmma, fitted to
what two runs of ``bench random`` measured, a line that lies across two of the L2 loses more."""

FETCHED_WIDE = {16: 1.15, 32: 1.25}
"""What they cost more where the L2 fetches 256 bytes at once; 1.19 and 1.0 to 1.05 alone."""

SHIFTED = frozenset((16, 32))
"""Alignments of rows that begin within pairs of sectors."""

FEW_FLOPS = 150
"""FLOP for a byte, of 16-bit operands, below which the L2 had better fetch single lines of what
comes from memory (H200, 2026-11-24): 8 and 16 rows by weights of 50 to 235 MB 1 to 6 % sooner, 64
rows 1 %, 64 groups of 128 rows 3.3 % twice; from 128 rows on it is within 1 % either way, and 16
groups of 512 rows take up to 1.5 % longer. The line that comes with another one is not asked for
before the next step, and then by as many as this one."""

RECEIVED_BYTES, RECEIVED_SHARP = 61, 6
"""Bytes in a cycle that an SM of a cluster receives, whoever asked; how sharply the larger of both
limits, of what it asks for and of what it receives, wins."""

RECEIVED_SLOWLY = {1: 52, 2: 55}
"""The same of lines that come slowly, where two CTAs share an operand: by how many operands are
shared by two. ``bench tma`` has 49 in clusters of two, 55 in those of four."""

ACROSS_LINES = 1.25
"""What rows of N-major boxes cost that lie across two lines of the L2, as of every second tile of
160 columns: 8 to 14 % of the kernel, nothing in a cluster that shares them."""


class Extents(Protocol):
    """A tile: rows, columns, and columns of K in a step."""

    @property
    def m(self) -> Number:
        """Rows."""

    @property
    def n(self) -> Number:
        """Columns."""

    @property
    def k(self) -> Number:
        """Columns of K."""


def fill_cycles(problem: Problem, shape: Shape, promoted: L2Promotions, rate: float) -> Number:
    """Cycles to fill a stage.

    Args:
        problem: says how rows are aligned.
        shape: the CTA's tile, and how many of a cluster share what is loaded.
        promoted: what the L2 fetches at once.
        rate: bytes in a cycle of aligned lines.
    """
    size_a, size_b = problem.element_bytes
    a = problem.a_count * _lines(shape.m, problem.m, shape.k, problem.m_major, size_a)
    b = problem.b_count * _lines(shape.n, problem.n, shape.k, problem.n_major, size_b)
    own_a, own_b = a / shape.cluster_n, b / shape.cluster_m  # for which a CTA asks itself
    asked = own_a / asked_rate(problem.align_a, promoted.a, rate)
    across = own_b / rate * _across(problem, shape)
    asked = asked + most(own_b / asked_rate(problem.align_b, promoted.b, rate), across)
    two = (shape.cluster_m == 2) * 1 + (shape.cluster_n == 2)
    slow, slower = (RECEIVED_SLOWLY[n] for n in (2, 1))
    by_two = either(two == 1, slower, slow) if asks_dearly(problem) else RECEIVED_BYTES
    received = (a + b) / either(two == 0, RECEIVED_BYTES, by_two)
    larger = most(most(asked, received), TINY)
    both = (asked / larger) ** RECEIVED_SHARP + (received / larger) ** RECEIVED_SHARP
    return LINE * either(shape.ctas == 1, asked, larger * both ** (1 / RECEIVED_SHARP))


@lru_cache(maxsize=1024)
def promotions(problem: Problem) -> L2Promotions:
    """What the L2 should fetch at once: one line where the next one is not read with it, and of
    operands larger than the L2 where memory decides (:data:`FEW_FLOPS`).
    """
    wide, line = TensorMapL2Promotion.B256, TensorMapL2Promotion.B128
    aligned = [align == ALIGNED for align in (problem.align_a, problem.align_b)]
    a, b = (wide if x and not y else line for x, y in zip(aligned, streams(problem), strict=True))
    return L2Promotions(a, b)


@lru_cache(maxsize=1024)
def streams(problem: Problem) -> tuple[bool, bool]:
    """Whether A, and B, is larger than the L2 where memory decides."""
    few = memory_decides(problem)
    a, b = (few and size > problem.l2_bytes for size in problem.operand_bytes)
    return a, b


def asks_early(problem: Problem) -> bool:
    """Whether the L2 should be asked for a CTA's first steps before the grid in front has ended:
    where an operand streams whose rows begin at whole pairs of sectors.

    A box is asked for twice then, and one of rows that begin 16 or 32 bytes into 64 has a sector
    more in each line. At 27 problems of up to 160 rows or columns (H200, 2026-11-30) hints were
    worth 0.4 to 3.9 % of the seven whose rows begin at 64 bytes, and cost others 0.7 % in the mean,
    5 at most.
    """
    apart = (problem.align_a, problem.align_b)
    return any(x and y not in SHIFTED for x, y in zip(streams(problem), apart, strict=True))


def memory_decides(problem: Problem) -> bool:
    """Whether there are so few FLOP for a byte that memory decides."""
    return _flops(problem) < FEW_FLOPS * least_bytes(problem)


def _flops(problem: Problem) -> float:
    """FLOP of a problem, as many as of 16-bit operands take as long."""
    wide = problem.k * problem.operand.bytes / 2
    return 2 * problem.products * problem.batch * problem.m * problem.n * wide


def policies(problem: Problem, tile: Extents, cluster: ClusterDims) -> CachePolicies:
    """Which operands leave the L2 first: those larger than it of which each byte is read once.

    Of them nothing is left when the next kernel begins, whatever the L2 keeps; what is read again
    stays. Weights of few rows come up to 4 % sooner, 0.6 % in geometric mean. Those that threads
    widen leave it from half of its size on: 33.5 MB of 4 bits come 1.0 to 2.1 us of 17 to 21 sooner
    in five of six pairs, as soon in one (H200, 2026-11-28).
    """
    first, normal = CachePolicy.EvictFirst, CachePolicy.EvictNormal
    held = problem.l2_bytes / (1 if problem.computed is None else 2)
    a, b = (size > held for size in problem.operand_bytes)
    once_a, once_b = problem.n <= tile.n * cluster.n, problem.m <= tile.m * cluster.m
    return CachePolicies(first if a and once_a else normal, first if b and once_b else normal)


def asks_dearly(problem: Problem) -> bool:
    """Whether lines of an operand come more slowly than aligned ones."""
    return problem.align_a in ASKED_BYTES or problem.align_b in ASKED_BYTES


def _lines(rows: Number, of: int, k: Number, outer: bool, size: float) -> Number:
    """Lines of ``rows`` by ``k`` elements of ``size`` bytes: along K, or along M or N where K is
    the ``outer`` dimension.

    Rows beyond those ``of`` the operand are not copied; a box is whole spans wide.
    """
    if outer:
        return k * -(-size * stored_columns(rows, int(size)) // LINE)
    return least(rows, of) * -(-size * k // LINE)


def stored_columns(columns: Number, size: int) -> Number:
    """:func:`lowering.target.ptx.stored_columns`, also of many at once."""
    span = WIDEST_SWIZZLE // size
    return either(columns < span, columns, -(-columns // span) * span)


def asked_rate(align: int, promotion: TensorMapL2Promotion, most: float) -> float:
    """Bytes in a cycle of an operand for whose lines an SM asks itself."""
    wide = promotion is TensorMapL2Promotion.B256
    found = ASKED_BYTES.get(align, most) / (FETCHED_WIDE.get(align, 1.0) if wide else 1.0)
    return min(most, found)


def _across(problem: Problem, shape: Shape) -> Number:
    """What rows of aligned boxes of B cost because they lie across two lines."""
    row = problem.element_bytes[1] * shape.n
    cut = (shape.cluster_m == 1) & (row > LINE) & (row % LINE > 0)
    return either(cut, ACROSS_LINES, 1.0) if problem.n_major else 1.0
