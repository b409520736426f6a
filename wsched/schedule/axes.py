"""Arguments of a schedule's calls: which loop is meant, and what kind of value is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import NoneType
from typing import Any

from lowering.ground.errors import ScheduleError
from wsched.fusion import PrimitiveCall, TensorView, is_long, nest_text, value_text

__all__ = ["Axis", "new_order", "position", "require", "require_all"]

Axis = int | str
"""A loop of a tensor: its position from the outside, or its label."""


def position(t: TensorView, axis: Axis, call: PrimitiveCall) -> int:
    """The position of a loop; whether a position exists is left to the primitive.

    Args:
        t: the tensor.
        axis: position or label.
        call: of which it is an argument, for the error.

    Raises:
        ScheduleError: rule ``axis``: no loop or several have this label; with those there are.
    """
    if isinstance(axis, int) and not isinstance(axis, bool):
        _short(call, "a position", axis)
        return axis
    labels = [d.label for d in t.loop]
    if not isinstance(axis, str):
        why = f"a loop is named by its position or its label, not by {value_text(axis)}"
    elif labels.count(axis) == 1:
        return labels.index(axis)
    else:
        many = f"{labels.count(axis)} loops" if axis in labels else "no loop"
        why = f"{t.name} has {many} labelled {axis!r}"
    legal = [str(p) if labels.count(x) > 1 else repr(x) for p, x in enumerate(labels)]
    raise ScheduleError("axis", str(call), why, tuple(legal), nest_text(t))


def new_order(
    t: TensorView, order: Mapping[Axis, int] | Iterable[Axis], call: PrimitiveCall
) -> dict[int, int]:
    """New positions by old ones, from a mapping, or from the loops in their new order.

    A sequence names the outer loops first; those that it leaves out follow in their old order.

    Raises:
        ScheduleError: rule ``axis``: no such loop, or one is named twice.
    """
    if isinstance(order, Mapping):
        for new in order.values():
            require(call, "a new position", new, int)
        places = [position(t, old, call) for old in order]
        _once(t, places, call)
        return dict(zip(places, order.values(), strict=True))
    if isinstance(order, str) or not isinstance(order, Iterable):
        why = (
            f"{value_text(order)} is no order: a mapping of loops to positions, or a list of loops"
        )
        raise ScheduleError("axis", str(call), why, (), nest_text(t))
    places = [position(t, axis, call) for axis in order]
    _once(t, places, call)
    stay = 0
    while stay < len(places) and places[stay] == stay:
        stay += 1  # the outermost loops stay where they are without being named
    return {old: new for new, old in enumerate(places) if new >= stay}


def _once(t: TensorView, places: list[int], call: PrimitiveCall) -> None:
    """Refuse positions among which one is twice; whether there are such is for the primitive."""
    twice = [p for p in sorted(set(places)) if places.count(p) > 1]
    if twice:
        known = 0 <= twice[0] < len(t.loop)
        loop = f"loop {t.loop[twice[0]].label}" if known else f"position {twice[0]}"
        why = f"{loop} is named {places.count(twice[0])} times"
        raise ScheduleError("axis", str(call), why, (), nest_text(t))


def require(call: PrimitiveCall, name: str, value: Any, kind: type | tuple[type, ...]) -> None:
    """Refuse an argument of another type.

    Raises:
        ScheduleError: rule ``argument``; every member is legal of an enum, else the types.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds):
        if isinstance(value, int):
            _short(call, name, value)
        return
    words = " or ".join("None" if k is NoneType else k.__name__ for k in kinds)
    members = [repr(m) for k in kinds if issubclass(k, Enum) for m in k]
    article = "an" if words[0] in "aeiou" else "a"
    why = f"{name} takes {article} {words}, not {value_text(value)}"
    raise ScheduleError("argument", str(call), why, tuple(members))


def _short(call: PrimitiveCall, name: str, value: int) -> None:
    """Refuse a number that no reason could print."""
    if is_long(value):
        why = f"{name} takes a number of at most 64 bits, not of {value.bit_length()}"
        raise ScheduleError("argument", str(call), why)


def require_all(call: PrimitiveCall, name: str, values: Any, kind: type, number: int) -> None:
    """Refuse what is no tuple of so many values of a type; raises as :func:`require`."""
    if not isinstance(values, tuple | list) or len(values) != number:
        why = f"{name} takes a tuple of {number} {kind.__name__}, not {value_text(values)}"
        raise ScheduleError("argument", str(call), why)
    for value in values:
        require(call, name, value, kind)
