"""``copy.tile`` on the machine: what each warp copies, through the generic proxy."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lowering.ground.types import Swizzle
from lowering.kernel.copy_tile import CopyTile, Pieces, pieces_of
from lowering.kernel.kernel import SharedBuffer
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.global_memory import gather, tensor_place
from lowering.machine.memory import SHARED_BASE
from lowering.machine.program import Program, Run
from lowering.machine.state import Warp

__all__ = ["copy_tile"]

_CHUNK = 16
"""Bytes that keep together when they are swizzled; a warp copies whole ones."""


def copy_tile(stmt: CopyTile, program: Program) -> Run:
    """``copy.tile``: the pieces that the warp's threads have of each box."""
    place, where = program.place(stmt.dst), tensor_place(stmt.OP, stmt.src, program)
    pieces = pieces_of(stmt, program.kernel.global_tensor(stmt.src.map), place.buffer)

    def run(warp: Warp) -> None:
        matrix, row, col = where(warp)
        if col % pieces.elements:
            raise FaultError(f"column {col} of {stmt.src.map} is no multiple of {pieces.elements}")
        rows, cols, words = _mine(place.buffer, pieces, warp.index % 4, place.element(warp.env))
        data = gather(matrix, row + rows[:, None], col + cols)
        cta = warp.cta
        cta.cluster.counts["load bytes"] += data.nbytes
        warp.touches(cta, words, 8, write=True)
        cta.memory.write_words(words, np.ascontiguousarray(data).view(np.uint64).reshape(-1))
        warp.unpublished.append(words)
        if warp.scheduler.coin(stmt):
            cta.memory.publish(words)

    return run


@lru_cache(maxsize=4096)
def _mine(
    buffer: SharedBuffer, pieces: Pieces, warp: int, at: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """Row and columns in the tile of the chunks of a warp, and their 8-byte words.

    ``at`` is the stage and the coordinates of the tile's first element.
    """
    *matrix, row, col = at
    if row + pieces.rows > buffer.rows or col % buffer.box_cols:
        raise FaultError(f"{pieces.rows} rows at [{row}, {col}] do not fit into {buffer.name}")
    lanes = 32 * warp + np.arange(32)
    size = pieces.bytes // pieces.elements
    rows, cols = [], []
    for box in range(pieces.boxes):
        for turn in range(pieces.turns):
            down = turn * pieces.rows_at_once + lanes // pieces.across
            right = lanes % pieces.across * pieces.elements
            first = (right * size % _CHUNK == 0) & (down < pieces.rows)
            rows.append(down[first])
            cols.append(box * buffer.box_cols + right[first])
    down, right = np.concatenate(rows), np.concatenate(cols)
    places = zip(down.tolist(), right.tolist(), strict=True)
    offsets = [buffer.byte(*matrix, row + r, col + c) for r, c in places]
    addresses = SHARED_BASE + (buffer.offset or 0) + np.array(offsets, np.int64)
    if buffer.swizzle is Swizzle.NONE and (addresses % _CHUNK).any():
        raise FaultError(f"lines of {buffer.name} are no whole {_CHUNK} bytes")
    words: Array = (addresses[:, None] // 8 + np.arange(_CHUNK // 8)).reshape(-1)
    return down, right[:, None] + np.arange(_CHUNK // size), words
