"""Of many tiles at once: cycles of a step and of an epilogue, stages, and which have no room.

The laws are those of step.py, copy_engine.py, epilogue.py and of the scheduler's limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowering.target import ptx
from wsched.choose import computed, epilogue, step
from wsched.choose.copy_engine import (
    ACROSS_LINES,
    LINE,
    RECEIVED_BYTES,
    RECEIVED_SHARP,
    RECEIVED_SLOWLY,
    asked_rate,
    asks_dearly,
    promotions,
)
from wsched.choose.problem import Problem
from wsched.choose.tiles import Tile
from wsched.schedule.matmul.chunks import TRANSPOSED_CHUNK
from wsched.schedule.matmul.params import ClusterDims
from wsched.schedule.matmul.shared import BARRIER_BYTES
from wsched.schedule.matmul.tiles import LEAST_STAGES, MAX_STAGES
from wsched.schedule.registers import BARE_REGISTERS, SPARE_REGISTERS

__all__ = ["Counts", "Held", "Many", "Numbers", "busy_cycles", "filled_cycles", "held_by"]

Counts = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Many:
    """Tiles of one product in clusters, the same field of all of them in an array.

    Args:
        m: as those of :class:`~wsched.choose.tiles.Tile` of these names are.
        n: columns.
        k: columns of a step.
        warpgroups: that compute.
        ping_pong: whether each has tiles of its own.
        across: warpgroups side by side.
        cluster_m: CTAs of a cluster along M.
        cluster_n: and along N.
        exchanged: whether it is the transposed product.
    """

    m: Counts
    n: Counts
    k: Counts
    warpgroups: Counts
    ping_pong: NDArray[np.bool_]
    across: Counts
    cluster_m: Counts
    cluster_n: Counts
    exchanged: bool

    @classmethod
    def of(cls, tried: Sequence[tuple[Tile, ClusterDims]], exchanged: bool) -> Many:
        """Those of a list."""
        rows = [(t.m, t.n, t.k, t.warpgroups, t.ping_pong, t.across, c.m, c.n) for t, c in tried]
        m, n, k, warpgroups, ping_pong, across, *cluster = np.array(rows, np.int64).T
        return cls(m, n, k, warpgroups, ping_pong > 0, across, cluster[0], cluster[1], exchanged)

    @property
    def ctas(self) -> Counts:
        """CTAs of each cluster."""
        return self.cluster_m * self.cluster_n

    @property
    def warp_m(self) -> Counts:
        """Rows of each warpgroup."""
        return np.where(self.ping_pong, self.m, self.m * self.across // self.warpgroups)

    @property
    def warp_n(self) -> Counts:
        """Columns of each warpgroup."""
        return self.n // self.across


@dataclass(frozen=True, slots=True)
class Held:
    """What shared memory and registers hold of each tile, at best.

    Args:
        stages: that fit.
        legal: False where there is no room for any schedule of the tile.
        epilogue: cycles of a tile's.
        lines: that the copy engine stores of a tile.
    """

    stages: Counts
    legal: NDArray[np.bool_]
    epilogue: Numbers
    lines: Counts


def busy_cycles(problem: Problem, tiles: Many) -> Numbers:
    """:attr:`wsched.choose.step.Step.busy` of each."""
    size, (a, b) = problem.operand.bytes, problem.element_bytes
    wide, blocks = tiles.k * size / 2, tiles.m // 64 * tiles.across
    columns = -(-tiles.n // step.WGMMA_N) * step.WGMMA_N
    flops = 2 * tiles.m * columns * wide
    tensor = np.maximum(flops / step.FLOPS_PER_CYCLE, blocks * wide / 16 * step.WGMMA)
    alone = tiles.ping_pong | (tiles.warpgroups == 1)
    products = problem.products * tensor + step.STEP + step.SHARED_STEP * ~alone
    if problem.computed is not None:
        a *= 2 if a == 1 else 1
    read = (64 * a + problem.products * tiles.warp_n * b) * tiles.k * blocks
    busy = np.maximum(products, (read + _stage_bytes(problem, tiles)) / step.SMEM_BYTES)
    if problem.computed is not None:
        busy = np.maximum(busy, _computing_cycles(problem, tiles, problem.computed.work))
    if problem.promotion:
        spans = np.maximum(1.0, tiles.k / problem.promotion)
        sums = problem.products * spans * tiles.warp_m * tiles.warp_n / ptx.WARPGROUP
        shared = sums / 2 + step.PROMOTED * (tiles.warpgroups > 2)
        busy = busy + np.where(alone, step.PROMOTED + sums, shared)
    found: Numbers = busy
    return found


def _computing_cycles(problem: Problem, tiles: Many, work: float) -> Numbers:
    """:func:`wsched.choose.computed.computing_cycles` of each."""
    issued = tiles.m * tiles.k * tiles.across * work / ptx.WARPGROUP
    slices = tiles.k * problem.operand.bytes // computed.K_BYTES
    wgmmas = slices * (tiles.m // computed.ROWS) * tiles.across
    share = np.where(tiles.warpgroups == 1, computed.ISSUED / 2, computed.ISSUED)
    found: Numbers = computed.SLICE + issued / share + wgmmas / tiles.warpgroups * computed.WGMMA
    return found


def filled_cycles(problem: Problem, tiles: Many, rate: float) -> Numbers:
    """:func:`wsched.choose.copy_engine.fill_cycles` of each."""
    size_a, size_b = problem.element_bytes
    promoted = promotions(problem)
    a = problem.a_count * _lines(tiles.m, problem.m, tiles.k, problem.m_major, size_a)
    b = problem.b_count * _lines(tiles.n, problem.n, tiles.k, problem.n_major, size_b)
    row = size_b * tiles.n
    cut = problem.n_major & (tiles.cluster_m == 1) & (row > LINE) & (row % LINE > 0)
    slow = 1 / asked_rate(problem.align_b, promoted.b, rate)
    cost_b = np.maximum(slow, np.where(cut, ACROSS_LINES, 1.0) / rate)
    asked = a / tiles.cluster_n / asked_rate(problem.align_a, promoted.a, rate)
    asked = asked + b / tiles.cluster_m * cost_b
    by_two = (1 * (tiles.cluster_m == 2) + (tiles.cluster_n == 2)) * asks_dearly(problem)
    most = np.array([RECEIVED_SLOWLY.get(n, RECEIVED_BYTES) for n in range(3)])
    received = (a + b) / most[by_two]
    larger = np.maximum(np.maximum(asked, received), np.finfo(np.float64).tiny)  # 0: no elements
    both = (asked / larger) ** RECEIVED_SHARP + (received / larger) ** RECEIVED_SHARP
    joined = larger * both ** (1 / RECEIVED_SHARP)
    found: Numbers = LINE * np.where(tiles.ctas == 1, asked, joined)
    return found


def _lines(rows: Counts, of: int, k: Counts, outer: bool, size: int) -> Counts:
    """Lines of an operand in a stage, as copy_engine.py has them."""
    if outer:
        return k * -(-size * _stored(rows, size) // LINE)
    return np.minimum(rows, of) * -(-size * k // LINE)


def _stored(columns: Counts, size: int) -> Counts:
    """:func:`lowering.target.ptx.stored_columns` of each."""
    span = ptx.WIDEST_SWIZZLE // size
    return np.where(columns < span, columns, -(-columns // span) * span)


def _stage_bytes(problem: Problem, tiles: Many) -> Counts:
    """Bytes of a stage of each."""
    a, b = problem.element_bytes
    n = _stored(tiles.n, b) if problem.n_major else tiles.n
    return (problem.a_count * tiles.m * a + problem.b_count * n * b) * tiles.k


def held_by(problem: Problem, tiles: Many) -> Held:
    """What room there is for each tile.

    Where TMA loads matrices for the epilogue or results are reduced, chunks may be narrower and
    buffers larger than they are taken to be here: then stages are as many as fit without buffers.
    """
    columns, known = (
        _chunk_columns(problem, tiles),
        not (problem.inputs or problem.reductions.types),
    )
    rows = np.minimum(tiles.warp_m, 64) if tiles.exchanged else tiles.warp_m
    blocks, widths = tiles.warp_m // rows, tiles.warp_n // columns
    chunks, odd = blocks * widths, np.where(blocks > 1, blocks, widths) % 2 > 0
    stored = sum(r.bytes for r in problem.results) * tiles.warpgroups * rows * columns
    turned = tiles.exchanged and any(r.bytes != 2 for r in problem.results)
    by_tma = problem.smem_epilogue and problem.unaligned is None and not turned
    room, stage = problem.target.shared_bytes - BARRIER_BYTES, _stage_bytes(problem, tiles)
    none, one, two = ((room - n * by_tma * stored) // stage for n in range(3))
    single = odd | (two < LEAST_STAGES)
    kept = np.where(single, one, two)
    threads = kept < LEAST_STAGES  # store the results, for which there is no room
    kept = np.where(threads, none, kept) if known else none
    each = epilogue.CHUNK + epilogue.SINGLE * (known & (odd | single & ~threads) & (chunks > 1))
    work = problem.work + epilogue.REDUCED * (problem.over_rows + problem.over_columns)
    element = epilogue.ELEMENT * sum(r.bytes for r in problem.results) / 2 + epilogue.WORK * work
    groups = np.where(tiles.ping_pong, 1, tiles.warpgroups)
    lines = tiles.n * (tiles.m // rows) if tiles.exchanged else tiles.m * (tiles.n // columns)
    return Held(
        stages=np.minimum(kept, MAX_STAGES),
        legal=(kept >= LEAST_STAGES) & _have_registers(problem, tiles, columns, known),
        epilogue=epilogue.TILE_END + element * tiles.m * tiles.n / groups + each * chunks,
        lines=lines * len(problem.results) * (by_tma & known & ~threads),
    )


def _chunk_columns(problem: Problem, tiles: Many) -> Counts:
    """Columns of a chunk of each, no fewer than those of any schedule of the tile."""
    if tiles.exchanged:
        found = tiles.warp_n
        for columns in range(8, TRANSPOSED_CHUNK + 1, 8):
            found = np.where(tiles.warp_n % columns == 0, columns, found)
        return found
    types = (*problem.results, *problem.reductions.types)
    return np.gcd(tiles.warp_n, ptx.WIDEST_SWIZZLE // max(t.bytes for t in types))


def _have_registers(
    problem: Problem, tiles: Many, columns: Counts, known: bool
) -> NDArray[np.bool_]:
    """Whether a thread of each has registers for accumulators and epilogue, by what is known."""
    target, threads = problem.target, (tiles.warpgroups + 1) * ptx.WARPGROUP
    most = {}
    for count in set(threads.tolist()):
        pairs = target.register_pairs(count)
        most[count] = pairs[0][1] if pairs else target.registers_at_entry(count)
    sums = tiles.warp_m * tiles.warp_n // ptx.WARPGROUP * problem.products
    others: Counts = np.full_like(sums, SPARE_REGISTERS)
    if known:
        held = columns * max(r.bytes for r in problem.results) // 8 * (2 if problem.work else 1)
        blocks = tiles.warp_m // target.mma.m
        others = np.maximum(others, BARE_REGISTERS + held * blocks // 2)
    compute = np.array([most[count] for count in threads.tolist()])
    fits: NDArray[np.bool_] = sums * (2 if problem.promotion else 1) + others <= compute
    return fits
