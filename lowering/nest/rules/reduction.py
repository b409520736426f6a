"""Reductions of registers: the part of a tile that a warpgroup holds."""

from __future__ import annotations

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.kernel.nodes import Frag, FragFill, FragReduce, FragReduceRows
from lowering.kernel.reduction import NEUTRAL
from lowering.nest.place import Place
from wsched.fusion import IterDomain, IterType, ParallelType, ReductionOp, TensorView

__all__ = ["reduction"]


def reduction(place: Place) -> None:
    """``op`` over rows or columns of a tile, onto what the loops around have so far.

    Elements behind the end of what is reduced over count as none: what is computed of them may be
    anything.
    """
    place.require_box(ParallelType.Mma)
    t, e = place.tensor, place.expr
    if not isinstance(e, ReductionOp):
        raise InternalError("lower", f"{t.name} = {e} as a reduction")
    if e.rounded is not None and not t.root:
        raise place.refuse(
            f"{t.name} = {e} as a whole", f"rfactor of {t.name}: who puts parts together rounds"
        )
    row, col = _matrix(place, e.input)
    rows, cols = _size(place, row), _size(place, col)
    mma = place.plan.target.mma
    single = 1 if place.fusion.reduction(e.input) is not None else 0  # a column that is left
    if rows % mma.m or (cols % mma.layout.columns and cols != single):
        units = f"a multiple of {mma.m} rows and of {mma.layout.columns} columns"
        raise place.refuse(f"{t.name} = {e} over a tile of {rows} x {cols}", f"tiles of {units}")
    value = place.operand(e.input, (rows, cols))
    if value.type.dtype is not DType.F32 or (value.type.rows, value.type.cols) != (rows, cols):
        raise place.refuse(
            f"{t.name} = {e} of {value.type}", "reductions of fp32 that differs in all dimensions"
        )
    (along,) = _along(place)
    held = place.registers.held.get(t.name)
    if held is not None:
        before = held.value
    else:
        before = place.new(DType.F32)
        place.emit(FragFill(before, NEUTRAL[e.op]))
    out = Frag(place.namer.new(t.name.lower()), before.type)
    kind = FragReduce if along is col else FragReduceRows
    below = place.below(value.type, along, by_rows=along is row)
    place.emit(kind(out, e.op, before, value, below))
    place.hold(out)


def _matrix(place: Place, name: str) -> tuple[IterDomain, IterDomain]:
    """The dimensions of what is read that are rows and columns of it in registers."""
    held = place.registers.held.get(name)
    if held is None:
        supported = f"{name} computed in the loops in which {place.tensor.name} is"
        raise place.refuse(f"{place.tensor.name} = {place.expr} of what is in memory", supported)
    *_, row, col = held.tile.axes
    return place.tensor.read[row], place.tensor.read[col]


def _from(t: TensorView, d: IterDomain) -> IterDomain:
    """The dimension of what is read that a dimension of the tensor is a part of."""
    for s in reversed(t.transforms):
        if d.id in {o.id for o in s.outputs} and len(s.inputs) == 1:
            return _from(t, s.inputs[0])
    return d


def _size(place: Place, d: IterDomain) -> int:
    """Elements of the tile along a dimension of what is read."""
    size = 1
    for part in place.tensor.logical:
        if _from(place.tensor, part).id == d.id:
            size *= place.tile.size(part)
    return size


def _along(place: Place) -> tuple[IterDomain, ...]:
    """The dimensions of what is read that are reduced over."""
    t = place.tensor
    summed = [d for d in t.logical if d.iter_type is IterType.Reduction]
    found = tuple(x for x in t.read[-2:] if any(_from(t, d).id == x.id for d in summed))
    if len(found) != 1 or len(summed) != 1:
        names = ", ".join(d.label for d in summed)
        raise place.refuse(f"{t.name} = {place.expr} over {names}", "rows or columns of a tile")
    parts = [_from(t, d).id for d in t.logical]
    for d in t.read:
        if (
            d not in found and parts.count(d.id) > 1
        ):  # places that are none of it, and count as none
            what = f"{t.name} = {place.expr}, which is cut along {d.label} and reduced over "
            raise place.refuse(f"{what}{found[0].label}", f"all of {d.label} as a dimension")
    return found
