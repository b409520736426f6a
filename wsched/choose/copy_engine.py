"""What TMA takes to fill a stage, by how rows are aligned (``wsched bench tma``, H200, 2026-11-22).

A box is copied line by line, and what a line costs does not depend on its width, up to the 128
bytes of a swizzle span. Where rows do not begin with sectors of 32 bytes each line touches one
more, and comes at half the rate; where the L2 fetches 256 bytes at once, at less. In a cluster each
CTA asks for its share of the lines and receives all, which brings most of it back.
"""

from __future__ import annotations

from typing import Protocol

from lowering.target.ptx import WIDEST_SWIZZLE, stored_columns
from wsched.choose.problem import ALIGNED, Problem
from wsched.schedule.matmul.params import (
    CachePolicies,
    ClusterDims,
    L2Promotions,
)
from wsched.schedule.options import CachePolicy, TensorMapL2Promotion

__all__ = ["Extents", "asked_rate", "asks_dearly", "fill_cycles", "policies", "promotions"]

LINE = WIDEST_SWIZZLE
"""Bytes of a line, of a box as of the L2."""

ASKED_BYTES = {16: 32.0, 32: 41.0, 64: 50.0}
"""Most bytes in a cycle that an SM gets of lines for which it asks itself, by the alignment of the
rows. ``bench tma`` has 30, 54 and 61 (7.9, 14.2 and 16 TB/s of 132 SMs); beside wgmma, fitted to
what two runs of ``bench random`` measured, a line that lies across two of the L2 loses more."""

FETCHED_WIDE = {16: 1.15, 32: 1.25}
"""What they cost more where the L2 fetches 256 bytes at once; 1.19 and 1.0 to 1.05 alone."""

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
    def m(self) -> int:
        """Rows."""

    @property
    def n(self) -> int:
        """Columns."""

    @property
    def k(self) -> int:
        """Columns of K."""


def fill_cycles(
    problem: Problem, tile: Extents, cluster: ClusterDims, promoted: L2Promotions, rate: float
) -> float:
    """Cycles to fill a stage.

    Args:
        problem: says how rows are aligned.
        tile: rows, columns and slice of K of the CTA's tile.
        cluster: CTAs of a cluster.
        promoted: what the L2 fetches at once.
        rate: bytes in a cycle of aligned lines.
    """
    (own_a, a), (own_b, b) = _lines(problem, tile, cluster)
    asked = own_a / asked_rate(problem.align_a, promoted.a, rate)
    across = own_b / rate * _across(problem, tile, cluster)
    asked += max(own_b / asked_rate(problem.align_b, promoted.b, rate), across)
    if cluster.m * cluster.n == 1:
        return LINE * asked
    by_two = (cluster.m, cluster.n).count(2) if asks_dearly(problem) else 0
    received = (a + b) / RECEIVED_SLOWLY.get(by_two, RECEIVED_BYTES)
    larger = max(asked, received)
    both: float = (asked / larger) ** RECEIVED_SHARP + (received / larger) ** RECEIVED_SHARP
    joined: float = larger * both ** (1 / RECEIVED_SHARP)
    return LINE * joined


def promotions(problem: Problem) -> L2Promotions:
    """What the L2 should fetch at once: one line where the next one is not read with it."""
    wide, line = TensorMapL2Promotion.B256, TensorMapL2Promotion.B128
    a, b = (wide if align == ALIGNED else line for align in (problem.align_a, problem.align_b))
    return L2Promotions(a, b)


def policies(problem: Problem, tile: Extents, cluster: ClusterDims) -> CachePolicies:
    """Which operands leave the L2 first: those larger than it of which each byte is read once.

    Of them nothing is left when the next kernel begins, whatever the L2 keeps; what is read again
    stays. Weights of few rows come up to 4 % sooner, 0.6 % in geometric mean.
    """
    first, normal = CachePolicy.EvictFirst, CachePolicy.EvictNormal
    a, b = (size > problem.l2_bytes for size in problem.operand_bytes)
    once_a, once_b = problem.n <= tile.n * cluster.n, problem.m <= tile.m * cluster.m
    return CachePolicies(first if a and once_a else normal, first if b and once_b else normal)


def asks_dearly(problem: Problem) -> bool:
    """Whether lines of an operand come more slowly than aligned ones."""
    return problem.align_a in ASKED_BYTES or problem.align_b in ASKED_BYTES


def _lines(
    problem: Problem, tile: Extents, cluster: ClusterDims
) -> tuple[tuple[float, int], tuple[float, int]]:
    """Lines of A and of B in a stage: those for which a CTA asks itself, and all."""
    size_a, size_b = problem.element_bytes
    a = problem.a_count * _of_tile(tile.m, problem.m, tile.k, problem.m_major, size_a)
    b = problem.b_count * _of_tile(tile.n, problem.n, tile.k, problem.n_major, size_b)
    return (a / cluster.n, a), (b / cluster.m, b)


def _of_tile(rows: int, of: int, k: int, outer: bool, size: int) -> int:
    """Lines of ``rows`` by ``k`` elements of ``size`` bytes: along K, or along M or N where K is
    the ``outer`` dimension.

    Rows beyond those ``of`` the operand are not copied; a box is whole spans wide.
    """
    if outer:
        return k * -(-size * stored_columns(rows, size) // LINE)
    return min(rows, of) * -(-size * k // LINE)


def asked_rate(align: int, promotion: TensorMapL2Promotion, most: float) -> float:
    """Bytes in a cycle of an operand for whose lines an SM asks itself."""
    wide = promotion is TensorMapL2Promotion.B256
    found = ASKED_BYTES.get(align, most) / (FETCHED_WIDE.get(align, 1.0) if wide else 1.0)
    return min(most, found)


def _across(problem: Problem, tile: Extents, cluster: ClusterDims) -> float:
    """What rows of aligned boxes of B cost because they lie across two lines."""
    row = problem.element_bytes[1] * tile.n
    cut = problem.n_major and cluster.m == 1 and row > LINE and row % LINE
    return ACROSS_LINES if cut else 1.0
