"""What shared memory and registers hold of many tiles at best: stages, cycles of an epilogue, and
which tiles have no room.

What it takes is epilogue.py's, what there is room for the scheduler's limits say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowering.target import ptx
from wsched.choose import epilogue
from wsched.choose.problem import Problem
from wsched.choose.shape import Shape
from wsched.choose.step import stage_bytes
from wsched.schedule.matmul.chunks import WIDEST_CHUNK
from wsched.schedule.matmul.shared import BARRIER_BYTES
from wsched.schedule.matmul.tiles import LEAST_STAGES, MAX_STAGES
from wsched.schedule.registers import BARE_REGISTERS, SPARE_REGISTERS

__all__ = ["Counts", "Held", "Numbers", "held_by"]

Counts = NDArray[np.int64]
Numbers = NDArray[np.float64]


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


def held_by(problem: Problem, tiles: Shape) -> Held:
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
    row = columns * min((r.bytes for r in problem.results), default=ptx.TMA_STRIDE_ALIGN)
    by_tma &= tiles.exchanged | (row % ptx.TMA_STRIDE_ALIGN == 0)
    room, stage = problem.target.shared_bytes - BARRIER_BYTES, stage_bytes(problem, tiles)
    none, one, two = ((room - n * by_tma * stored) // stage for n in range(3))
    turns = np.where(blocks > 1, blocks, widths)
    single = ~tiles.apart & (odd | (two < LEAST_STAGES))
    every = (room - turns * by_tma * stored) // stage
    kept = np.where(tiles.apart, every, np.where(single, one, two))
    never = (tiles.chunk > 0) | tiles.apart
    threads = (kept < LEAST_STAGES) & ~never  # store the results, for which there is no room
    kept = np.where(threads, none, kept) if known else none
    hides = epilogue.hides_stores(problem)
    each = epilogue.CHUNK + epilogue.SINGLE * (known & single & ~threads & (chunks > 1))
    each, element = each * (not hides), epilogue.element_cycles(problem, hides)
    groups = np.where(tiles.ping_pong, 1, tiles.warpgroups)
    lines = tiles.n * (tiles.m // rows)
    if not tiles.exchanged:
        size = min((r.bytes for r in problem.results), default=1)
        lines = tiles.m * (tiles.n // columns) * -(-columns * size // ptx.WIDEST_SWIZZLE)
    return Held(
        stages=np.minimum(kept, MAX_STAGES),
        legal=(kept >= LEAST_STAGES) & _have_registers(problem, tiles, columns, known),
        epilogue=epilogue.TILE_END + element * tiles.m * tiles.n / groups + each * chunks,
        lines=lines * len(problem.results) * (by_tma & known & ~threads),
    )


def _chunk_columns(problem: Problem, tiles: Shape) -> Counts:
    """Columns of a chunk of each, no fewer than those of any schedule of the tile."""
    found: Counts = tiles.warp_n
    if tiles.exchanged:
        for columns in range(8, WIDEST_CHUNK + 1, 8):
            found = np.where(tiles.warp_n % columns == 0, columns, found)
        return np.where(tiles.chunk > 0, tiles.chunk, found)
    types = (*problem.results, *problem.reductions.types)
    found = np.gcd(found, min(ptx.WIDEST_SWIZZLE // max(t.bytes for t in types), WIDEST_CHUNK))
    return np.where(tiles.chunk > 0, tiles.chunk, found)


def _have_registers(
    problem: Problem, tiles: Shape, columns: Counts, known: bool
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
    fits: NDArray[np.bool_] = sums + others <= compute
    if problem.promotion:
        first = tiles.warp_m if problem.computed is not None else target.mma.m
        summed = sums * np.minimum(first, tiles.warp_m) // tiles.warp_m
        fits &= sums + summed + BARE_REGISTERS <= compute
    return fits
