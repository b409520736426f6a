"""Loads of a loop that are made a trip ahead, in the registers of those that they follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowering.ground.expr import ONE, Expr, Var, substitute
from lowering.kernel.nodes import Carry, For, Frag, FragColumns, FragLoadGlobal, FragRows
from lowering.kernel.visit import Names, defined_in, used, used_in

__all__ = ["by_trip", "trip_ahead"]


def by_trip(loop: For, load: FragLoadGlobal) -> bool:
    """Whether what is loaded depends on nothing but which trip it is, and each is one further."""
    inside = defined_in(loop.body) | {c.var.name for c in loop.carries}
    return loop.step == ONE and loop.var.name in used(load) and not used(load) & inside


def trip_ahead(loop: For, load: FragLoadGlobal, names: Names) -> tuple[FragLoadGlobal, For]:
    """The load of the first trip, and the loop whose trips carry what they read, and load for the
    next one right behind the last statement that reads it.
    """
    value = load.out
    first, following, rest = (
        replace(value, name=names.new(f"{value.name}_{n}")) for n in ("first", "next", "rest")
    )
    body = [s for s in loop.body if s is not load]
    own = {value.name}
    for s in body:  # parts are the same registers
        if isinstance(s, FragRows | FragColumns) and s.value.name in own:
            own.add(s.out.name)
    place = max((i for i, s in enumerate(body, 1) if own & used_in((s,))), default=0)
    while place < len(body) and isinstance(body[place], FragLoadGlobal):
        place += 1  # behind others that wait for the same
    body.insert(place, _at(load, {loop.var: loop.var + ONE}, following))
    new = replace(
        loop, body=tuple(body), carries=(*loop.carries, Carry(value, first, rest)),
        yields=(*loop.yields, following),
    )  # fmt: skip
    return _at(load, {loop.var: loop.start}, first), new


def _at(load: FragLoadGlobal, trip: Mapping[Var, Expr], out: Frag) -> FragLoadGlobal:
    """The load of another trip."""
    coords = tuple(substitute(x, trip) for x in load.src.coords)
    limit = None if load.limit is None else substitute(load.limit, trip)
    return replace(load, out=out, src=replace(load.src, coords=coords), limit=limit)
