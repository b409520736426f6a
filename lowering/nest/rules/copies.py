"""Copies between registers: another name for the same values."""

from __future__ import annotations

from lowering.nest.place import Place
from wsched.fusion import ParallelType, inputs_of

__all__ = ["copy"]


def copy(place: Place) -> None:
    """``Set`` of registers; nothing moves."""
    place.require_box(ParallelType.Mma)
    (name,) = inputs_of(place.expr)
    place.hold(place.operand(name))
