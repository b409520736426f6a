"""Casts and pointwise operations on registers: arithmetic in fp32, whatever the tensors' types."""

from __future__ import annotations

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.kernel.nodes import Frag, FragCast, FragPointwise
from lowering.nest.place import Place
from lowering.nest.rules.padding import read_as_it_is
from wsched.fusion import CastOp, DataType, ParallelType, PointwiseOp

__all__ = ["cast", "pointwise"]


def cast(place: Place) -> None:
    """A conversion; a predicate becomes 0 or 1."""
    place.require_box(ParallelType.Mma)
    e = place.expr
    if not isinstance(e, CastOp):
        raise InternalError("lower", f"{place.tensor.name} = {e} as a cast")
    value = place.operand(e.input)
    if value.type.dtype is DType.PRED:
        _computed(place, "where", (value, 1.0, 0.0))
        return
    out = place.new(place.dtype)
    place.emit(FragCast(out, value))
    place.hold(read_as_it_is(place, out))


def pointwise(place: Place) -> None:
    """An operation, element by element."""
    place.require_box(ParallelType.Mma)
    e = place.expr
    if not isinstance(e, PointwiseOp):
        raise InternalError("lower", f"{place.tensor.name} = {e} as a pointwise operation")
    args = tuple(place.operand(x) if isinstance(x, str) else x for x in e.inputs)
    _computed(place, e.op, args)


def _computed(place: Place, op: str, args: tuple[Frag | float, ...]) -> None:
    """The operation in fp32, and its rounding where the tensor has another type."""
    if place.tensor.dtype is DataType.Bool:
        out = place.new(DType.PRED)
        place.emit(FragPointwise(out, op, args))
        place.hold(out)
        return
    out = place.new(DType.F32)
    place.emit(FragPointwise(out, op, args))
    if place.dtype is not DType.F32:
        wide, out = out, place.new(place.dtype)
        place.emit(FragCast(out, wide))
    place.hold(read_as_it_is(place, out))
