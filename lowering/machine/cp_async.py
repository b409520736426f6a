"""``cp.async`` on the machine: when its bytes land, who arrives then, and who may pass them on."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from lowering.ground.types import FragmentType
from lowering.kernel.cp_async import CP_ASYNC_BYTES
from lowering.kernel.kernel import SharedBuffer
from lowering.kernel.nodes import CpAsync, CpAsyncArrive
from lowering.machine.barriers import Arrival, Copy
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.global_memory import gather, rows_of, tensor_place
from lowering.machine.memory import SHARED_BASE
from lowering.machine.program import Program, Run
from lowering.machine.scheduler import Effect
from lowering.machine.state import Warp

__all__ = ["cp_async", "cp_async_arrive"]


def cp_async(stmt: CpAsync, program: Program) -> Run:
    """``cp.async``: the rows that the warp has of a fragment of that size."""
    place, where = program.place(stmt.dst), tensor_place(stmt.OP, stmt.src, program)
    kind = FragmentType(place.buffer.dtype, stmt.rows, 8)
    behind = rows_of(stmt.limit, stmt.index, kind, program)
    align = CP_ASYNC_BYTES // place.buffer.dtype.bytes

    def run(warp: Warp) -> None:
        matrix, row, col = where(warp)
        if col % align:
            raise FaultError(f"column {col} of {stmt.src.map} is no multiple of {align}")
        words = _words(place.buffer, stmt.rows, stmt.cols, warp.index % 4, place.element(warp.env))
        rows = _by_row(np.broadcast_to(behind(warp), (32, kind.blocks, 1, 2, 1)))
        rows = np.where(rows < 0, -1, rows + row)
        data = gather(matrix, rows[:, None], col + np.arange(stmt.cols)[None, :])
        copy = Copy(words)
        warp.copies.append(copy)
        warp.cta.cluster.counts["load bytes"] += data.nbytes
        warp.scheduler.add(Effect(_landing(warp, stmt, copy, data), warp, stmt))

    return run


def _landing(warp: Warp, stmt: CpAsync, copy: Copy, data: Array) -> Callable[[], None]:
    before = warp.known.before(warp.elected)

    def land() -> None:
        memory = warp.cta.memory
        copy.events = warp.cta.touch(warp, stmt, before, copy.words, 8, write=True)
        memory.write_words(copy.words, np.ascontiguousarray(data).view(np.uint64))
        if warp.scheduler.coin(stmt):
            memory.publish(copy.words)
        copy.landed = True
        for arrival in copy.arrivals:
            arrival.landed(warp.scheduler)

    return land


def cp_async_arrive(stmt: CpAsyncArrive, program: Program) -> Run:
    """``cp.async.mbarrier.arrive.noinc``: arrives once what the warp has issued has landed.

    What it issued may be passed on to the async proxy by whoever waits for the barrier.
    """
    find = program.mbarrier(stmt.bar)

    def run(warp: Warp) -> None:
        bar, index = find(warp.cta, warp.env)
        bar.check("arrived at")
        flying = [copy for copy in warp.copies if not copy.landed]
        bar.use(warp, "arrived at")
        known = warp.known.before(warp.elected)
        arrival = Arrival(bar, warp.threads, warp.copies, len(flying), known)
        warp.copies = flying
        for copy in flying:
            copy.arrivals.append(arrival)
        if not flying:
            arrival.arrive(warp.scheduler)
        warp.record(stmt.OP, stmt.bar.array, index)

    return run


def _by_row(values: Array) -> Array:
    """A column ``[32, blocks, 1, 2, 1]`` as the warp's rows, in order; four lanes hold each."""
    found: Array = values[::4, :, 0, :, 0].transpose(1, 2, 0).reshape(-1)
    return found


@lru_cache(maxsize=4096)
def _words(buffer: SharedBuffer, rows: int, cols: int, warp: int, at: tuple[int, ...]) -> Array:
    """The 8-byte words ``[16 rows of each 64, cols in words]`` of a warp's part of a tile.

    ``at`` is the stage and the coordinates of the tile's first element. 16 bytes keep together.
    """
    *matrix, row, col = at
    if row + rows > buffer.rows or col + cols > buffer.cols:
        raise FaultError(f"{rows}x{cols} at [{row}, {col}] does not fit into {buffer.name}")
    own = [row + r for r in range(rows) if r // 16 % 4 == warp]
    starts = range(col, col + cols, CP_ASYNC_BYTES // buffer.dtype.bytes)
    offsets = np.array([[buffer.byte(*matrix, r, c) for c in starts] for r in own])
    pairs = (SHARED_BASE + (buffer.offset or 0) + offsets)[..., None] // 8 + np.arange(2)
    words: Array = pairs.reshape(len(own), -1)
    words.setflags(write=False)
    return words
