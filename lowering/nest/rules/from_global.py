"""Reads from global memory by the threads that compute."""

from __future__ import annotations

from lowering.kernel.nodes import FragLoadGlobal
from lowering.nest.place import Place
from lowering.nest.views import view_of
from wsched.fusion import ParallelType, inputs_of

__all__ = ["from_global"]


def from_global(place: Place) -> None:
    """``Set`` of an input, or of a broadcast of one: a view of it."""
    place.require_box(ParallelType.Mma)
    (name,) = inputs_of(place.expr)
    read = view_of(place.fusion, name)
    out, at = place.new(place.dtype.register), place.element(read.name, read.dims)
    turned = place.tile.transposed or place.tile.axes[-2] == read.view.stored.index(read.dims[-1])
    place.emit(FragLoadGlobal(out, at, trans=turned))
    place.hold(out)
