"""Reductions on the machine: in the order of the hardware's code, so that sums are the same bits.

Rows that warps hand to each other in shared memory are known to a warp through barriers only, as
partial results in global memory are (``lowering.machine.partials``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from lowering.ground.types import FragmentType
from lowering.kernel.nodes import (
    FragBelow,
    FragReduce,
    FragReduceFromShared,
    FragReduceToShared,
    FragStoreReduced,
    SmemRef,
)
from lowering.kernel.reduction import ABSENT, NEUTRAL, WARP_ROWS
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array, add_product, element_index, greater, less
from lowering.machine.global_memory import tensor_place
from lowering.machine.handed import Handed
from lowering.machine.program import Program, Run
from lowering.machine.state import Registers, Warp

__all__ = [
    "frag_below", "frag_reduce", "frag_reduce_from_shared", "frag_reduce_to_shared",
    "frag_store_reduced",
]  # fmt: skip


Op = Callable[[Array, Array], Array]


def _chain(op: Op, data: Array, axis: int, start: Array | None = None) -> Array:
    """What lies along an axis, one after the other, behind ``start``, as float32; the axis stays,
    of size 1.
    """
    parts = np.split(data, data.shape[axis], axis)
    first, *rest = parts if start is None else (start, *parts)
    for each in rest:
        first = op(first, each)
    return first.astype(np.float32, copy=False)


def _butterfly(op: Op, data: Array, *distances: int) -> Array:
    """Each lane's value with that of the lane so far away, for one distance after the other."""
    for distance in distances:
        data = op(data, data[np.arange(32) ^ distance])
    return data


def _blocks(op: Op, data: Array, down: bool, right: bool, start: Array | None = None) -> Array:
    """A thread's blocks (``down``) and groups (``right``) fall together, the groups innermost."""
    lanes, blocks, groups, halves, span = data.shape
    if down and right:
        return _chain(op, data.reshape(lanes, 1, blocks * groups, halves, span), 2, start)
    return _chain(op, data, 1 if down else 2, start)


def _masked(warp: Warp, stmt: FragReduce | FragReduceToShared) -> Array:
    """What is reduced, float32, or products as float64, which are exact; where ``below`` is false,
    what leaves the rest as it is.
    """
    data = warp.read(stmt.value)
    if stmt.factor is not None:
        data = data.astype(np.float64) * warp.read(stmt.factor)
    if stmt.below is None:
        return data
    return np.where(warp.read(stmt.below), data, data.dtype.type(ABSENT[stmt.op]))


def _add(before: Array, each: Array) -> Array:
    """Onto a sum a number, or a product that is not rounded; a sum is rounded when it begins."""
    if each.dtype == np.float64:
        return add_product(before.astype(np.float32), each)
    return np.add(before, each)


_OPS: Mapping[str, Op] = {"sum": _add, "max": greater, "min": less}


def frag_reduce(stmt: FragReduce, program: Program) -> Run:
    """``frag.reduce``."""
    op, kind, to = _OPS[stmt.op], stmt.value.type, stmt.acc.type
    down, right = to.rows < kind.rows, to.cols < kind.cols

    def run(warp: Warp) -> None:
        before, data = warp.read(stmt.acc), _masked(warp, stmt)
        if to.cols == 1 < kind.cols:
            data = _chain(op, _blocks(op, data, down, right), 4)
            total = op(before, _butterfly(op, data, *kind.layout.distances))
        else:
            total = _blocks(op, data, down, right, before)
        registers = warp.take(stmt.acc)
        registers.data = total
        warp.define(stmt.out, registers)

    return run


def frag_reduce_to_shared(stmt: FragReduceToShared, program: Program) -> Run:
    """``frag.reduce_to_shared``."""
    op, kind = _OPS[stmt.op], stmt.value.type
    where = _region(stmt.dst, 1, kind.cols, program)

    def run(warp: Warp) -> None:
        own = warp.index % WARP_ROWS
        lines, region, addresses = where(warp, own)
        data = _chain(op, _blocks(op, _masked(warp, stmt), True, False), 3)
        data = _butterfly(op, data, 4, 8, 16)
        row = np.empty((1, kind.cols), np.float32)
        _, cols = element_index(FragmentType(kind.dtype, 1, kind.cols), own)
        # Eight lanes hold a column; the first of them stores it.
        row[0, np.broadcast_to(cols[:4], data[:4].shape)] = data[:4]
        lines.store(warp, region)
        warp.touches(warp.cta, addresses // 4, 4, write=True)
        warp.cta.memory.write_floats(addresses, row)
        warp.unpublished.append(np.unique(addresses // 8))
        warp.record(stmt.OP, stmt.dst.buffer, region[0])

    return run


def frag_reduce_from_shared(stmt: FragReduceFromShared, program: Program) -> Run:
    """``frag.reduce_from_shared``."""
    op, kind = _OPS[stmt.op], stmt.acc.type
    where = _region(stmt.src, stmt.rows, kind.cols, program)

    def run(warp: Warp) -> None:
        lines, region, addresses = where(warp, 0)
        lines.load(warp, region)
        warp.touches(warp.cta, addresses // 4, 4)
        total = _chain(op, warp.cta.memory.read_floats(addresses), 0)[0]
        warp.reads(np.unique(addresses // 8))
        _, cols = element_index(kind, warp.index % 4)
        before = warp.read(stmt.acc)
        registers = warp.take(stmt.acc)
        registers.data = op(before, np.broadcast_to(total[cols], before.shape))
        warp.define(stmt.out, registers)
        warp.record(stmt.OP, stmt.src.buffer, region[0])

    return run


def frag_store_reduced(stmt: FragStoreReduced, program: Program) -> Run:
    """``frag.store_reduced``: of each 128 columns a warp has 32."""
    op, start = _OPS[stmt.op], np.full(1, NEUTRAL[stmt.op], np.float32)
    where = _region(stmt.src, stmt.rows, stmt.cols, program)
    into = tensor_place(stmt.OP, stmt.dst, program)
    warps = np.arange(stmt.cols) // 32 % WARP_ROWS

    def run(warp: Warp) -> None:
        matrix, row, col = into(warp)
        lines, region, addresses = where(warp, 0)
        lines.load(warp, region)
        warp.touches(warp.cta, addresses // 4, 4)
        total = op(start, _chain(op, warp.cta.memory.read_floats(addresses), 0)[0])
        warp.reads(np.unique(addresses // 8))
        down, right = matrix.shape
        own = np.flatnonzero(warps == warp.index % WARP_ROWS)
        own = own[(col + own < right) & (0 <= row < down)]
        if own.size:
            matrix[row, col + own] = total[own]
        warp.cta.cluster.counts["store bytes"] += own.size * matrix.itemsize
        warp.record(stmt.OP, stmt.src.buffer, region[0])

    return run


Region = tuple[int, slice, slice]
"""Stage, rows and columns of a buffer."""


def _region(
    ref: SmemRef, rows: int, cols: int, program: Program
) -> Callable[[Warp, int], tuple[Handed, Region, Array]]:
    """A function that gives what a CTA's warps handed on through a buffer, a part of it that
    begins so many rows below ``ref``, and its byte addresses ``[rows, cols]``.
    """
    place = program.place(ref)
    b = place.buffer

    def region(warp: Warp, below: int) -> tuple[Handed, Region, Array]:
        stage, *matrix, row, col = place.element(warp.env)
        row += below
        if matrix or row + rows > b.rows or col + cols > b.cols:
            at = f"{b.name}[{', '.join(map(str, (stage, *matrix, row, col)))}]"
            raise FaultError(f"{rows}x{cols} at {at} does not fit into {b.rows}x{b.cols}")
        if cols > 1 and col % 2:
            raise FaultError(f"two columns at once of {b.name} from column {col} on, which is odd")
        offsets = [[b.byte(stage, r, c) for c in range(col, col + cols)]
                   for r in range(row, row + rows)]  # fmt: skip
        addresses = place.base + np.array(offsets)
        part = stage, slice(row, row + rows), slice(col, col + cols)
        if b.name not in warp.cta.handed:
            warps = program.kernel.threads // 32
            warp.cta.handed[b.name] = Handed.of(b, warp.cta.ctaid, warps)
        return warp.cta.handed[b.name], part, addresses

    return region


def frag_below(stmt: FragBelow, program: Program) -> Run:
    """``frag.below``."""
    limit, kind = program.scalar(stmt.limit), stmt.out.type

    def run(warp: Warp) -> None:
        rows, cols = element_index(kind, warp.index % 4)
        down = rows * stmt.down if kind.rows > 1 else 0
        right = cols * stmt.right if kind.cols > 1 else 0
        held = np.broadcast_to(down + right, (32, *kind.held))
        warp.define(stmt.out, Registers(held < limit(warp.env), warp.epoch))

    return run
