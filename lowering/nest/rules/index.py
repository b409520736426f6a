"""Masks by the indices of elements: what threads know without reading anything."""

from __future__ import annotations

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import Const, Expr, ScalarType
from lowering.kernel.nodes import FragBelow
from lowering.nest.domains import repeats
from lowering.nest.place import Place
from wsched.fusion import IndexOp, ParallelType

__all__ = ["index"]


def index(place: Place) -> None:
    """A comparison of a sum of indices. What the first element of the box adds to it is taken from
    the limit, in 64 bits, which hold it: factors and the limit have 32.
    """
    place.require_box(ParallelType.Mma)
    e = place.expr
    if not isinstance(e, IndexOp):
        raise InternalError("lower", f"{place.tensor.name} = {e} as a mask by indices")
    of = dict(zip(place.tensor.stored, e.factors, strict=True))
    limit: Expr = Const(e.limit, ScalarType.I64)
    for d, factor in of.items():
        if not factor:
            continue
        at, wide = place.index(d), Const(abs(factor), ScalarType.I64)
        term = at if abs(factor) == 1 else at * wide
        limit = limit - term if factor > 0 else limit + term
    *_, rows, cols = place.tile.order
    down, right = (1 if repeats(d) else of[d] for d in (rows, cols))
    out = place.new(DType.PRED)
    place.emit(FragBelow(out, limit, down, right))
    place.hold(out)
