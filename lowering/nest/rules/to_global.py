"""Writes to global memory by the threads that compute."""

from __future__ import annotations

from lowering.kernel.nodes import FragStoreGlobal
from lowering.nest.place import Place
from wsched.fusion import ParallelType, inputs_of

__all__ = ["to_global"]


def to_global(place: Place) -> None:
    """``Set`` of registers into a result."""
    place.require_box(ParallelType.Mma)
    (name,) = inputs_of(place.expr)
    value = place.operand(name)
    memory, tile = place.tensor.in_memory, place.tile
    if memory == place.tensor.stored:
        trans = tile.transposed
    else:  # parts of a reduction: a column of them lies along a row
        row, col = (memory.index(d) for d in tile.order[-2:])
        trans = row > col
    *_, rows, cols = (None, *map(place.left, tile.order))
    at = place.element(place.tensor.name, memory)
    place.emit(FragStoreGlobal(at, value, rows, trans=trans, limit_cols=cols))
