"""Writes to global memory by the threads that compute."""

from __future__ import annotations

from lowering.ground.dtypes import DType
from lowering.ground.expr import ZERO, Expr
from lowering.ground.frozen import replaced
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import (
    Frag,
    FragLoadGlobal,
    FragRedGlobal,
    FragShuffle,
    FragStoreGlobal,
    GmemRef,
)
from lowering.kernel.tensors import WIDEST_ACCESS
from lowering.nest.place import Place
from wsched.fusion import Added, ParallelType, inputs_of
from wsched.fusion.names import ROWS

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
    added = place.fusion.added.get(place.tensor.name)
    if added is None:
        place.emit(FragStoreGlobal(at, value, rows, trans=trans, limit_cols=cols))
    elif trans or cols is not None:
        what = f"{place.tensor.name} = {place.expr}, rows that are added, with columns of tiles"
        raise place.refuse(what, "rows of tiles")
    else:
        _add(place, added, at, value, rows)


def _add(place: Place, added: Added, at: GmemRef, value: Frag, limit: Expr | None) -> None:
    """Each row onto the one that its number says. Only the last of a group's tiles has rows that
    are none of it, whose numbers are read and not used.
    """
    axes = [str(d.extent) for d in place.tensor.in_memory]
    row = axes.index(ROWS)
    numbers = tuple(ZERO if n == len(axes) - 1 else x for n, x in enumerate(at.coords))
    value = _side_by_side(place, value)
    kind = FragmentType(DType.S32, value.type.rows, 1, layout=value.type.layout)
    index = Frag(place.namer.new("rows"), kind)
    onto = GmemRef(at.map, tuple(ZERO if n == row else x for n, x in enumerate(at.coords)))
    place.emit(
        FragLoadGlobal(index, GmemRef(added.rows, numbers)),
        FragRedGlobal("add", onto, value, limit, index, any_order=True),
    )


def _side_by_side(place: Place, value: Frag) -> Frag:
    """The same of 16 bits with more columns of a row in a thread, up to 16 bytes: the L2 adds
    lines that it is given whole with less energy. Lanes exchange them.
    """
    size = value.type.dtype.bytes
    while size == 2 and value.type.layout.span * size < WIDEST_ACCESS:
        layout = replaced(value.type.layout, span=2 * value.type.layout.span)
        if value.type.cols % layout.columns:
            break
        wide = Frag(place.namer.new(value.name), replaced(value.type, layout=layout))
        place.emit(FragShuffle(wide, value))
        value = wide
    return value
