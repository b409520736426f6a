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
    at = place.element(place.tensor.name, place.tensor.stored)
    trans = place.tile.transposed
    place.emit(FragStoreGlobal(at, value, trans=trans))
