"""Declaring what is assumed of a value that only the device knows."""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import ScheduleError
from wsched.fusion import Fusion, PrimitiveCall, Unknown
from wsched.schedule.primitives.factor import LARGEST

__all__ = ["assume"]


def assume(fusion: Fusion, name: str, least: int, most: int, promise: str) -> Fusion:
    """Let ``name`` stand where ``split`` takes a factor: a value that only the device knows.

    Args:
        fusion: the fusion.
        name: what the factors call it.
        least: the least value that it may have.
        most: the largest one.
        promise: who sees to that, and that all threads of a grid read the same value, in words.

    A plan is legal for all values that are assumed and lists them in ``Plan.assumptions``. Nothing
    is lowered yet that depends on one. Legal if the name is free and the bounds are a range of
    extents.
    """
    call = PrimitiveCall("assume", (name, least, most, promise))
    bindings = (*fusion.inputs, *fusion.outputs)
    taken = {a for b in bindings for a in (*b.axes, *b.extents)}
    why = ""
    if not name.isidentifier() or name == "sms":
        why = f"{name!r} is no name of an extent"
    elif any(u.name == name for u in fusion.unknowns):
        why = f"{name} is assumed already"
    elif name in taken:
        why = f"{name} is the size of a tensor"
    elif not 0 <= least <= most <= LARGEST:
        why = f"{least} .. {most} is no range within 0 .. {LARGEST}"
    if why:
        raise ScheduleError("assume", str(call), why)
    unknowns = (*fusion.unknowns, Unknown(name, least, most, promise))
    return replace(fusion, unknowns=unknowns).after(call)
