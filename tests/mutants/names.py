"""Names in place of others of the same type that are in scope, and values that change places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

from lowering.ground.expr import Binary, Expr, Select, Var
from lowering.kernel.nodes import Carry, Event, For, Frag, Stmt
from tests.mutants.places import Name, Place, after, inside

__all__ = ["exchanged", "renamed"]

_SOME = 2
"""Other names that are drawn for each one that a statement reads, beside the nearest one: a kernel
has thirty of a type.
"""

_BINDS = {Carry: ("var", "result"), For: ("var", "body", "yields", "event")}
"""Fields of what has others that it reads; what a loop yields has a scope of its own."""


def renamed(place: Place) -> Iterator[Stmt]:
    """The statement with one name that it reads replaced, at one place in it: a fragment or a
    scalar by the one of its type that was bound last, and by others.
    """
    stmt = place.stmt
    yield from _anywhere(stmt, lambda name: _others(name, place.scope, str(stmt.OP)))
    if isinstance(stmt, For):
        inner = _scope_of_yields(place, stmt)
        for yields in _anywhere(stmt.yields, lambda name: _others(name, inner, "yield")):
            yield replace(stmt, yields=yields)


def exchanged(stmt: Stmt) -> Iterator[Stmt]:
    """A loop with two of the values that it carries exchanged, as it begins or goes on."""
    if not isinstance(stmt, For):
        return
    for a, b in combinations(range(len(stmt.carries)), 2):
        one, other = stmt.carries[a], stmt.carries[b]
        if _type(one.var) != _type(other.var):
            continue
        yields = [*stmt.yields]
        yields[a], yields[b] = yields[b], yields[a]
        carries = [*stmt.carries]
        carries[a], carries[b] = replace(one, init=other.init), replace(other, init=one.init)
        if yields != [*stmt.yields]:
            yield replace(stmt, yields=tuple(yields))
        if carries != [*stmt.carries]:
            yield replace(stmt, carries=tuple(carries))


def _type(name: object) -> object:
    return name.type if isinstance(name, Name) else None


def _scope_of_yields(place: Place, loop: For) -> tuple[Name, ...]:
    """What is in scope at the end of a loop's body."""
    ends = (name for s in loop.body for name in after(s))
    return (*place.scope, *inside(loop, 0), *ends)


def _others(name: Name, scope: tuple[Name, ...], where: str) -> list[Name]:
    """The last name of a scope that is of the same type, and some more, the same each time."""
    alike = [n for n in dict.fromkeys(reversed(scope)) if n.type == name.type and n != name]
    drawn = Random(f"{where} {name.name}").sample(alike[1:], min(_SOME, len(alike[1:])))
    return [*alike[:1], *drawn]


def _anywhere(value: Any, others: Callable[[Name], list[Name]]) -> Iterator[Any]:
    """A value with one name in it replaced; statements inside are not looked into."""
    match value:
        case Var() | Frag():
            yield from others(value)
        case Binary(op, lhs, rhs):
            yield from (Binary(op, new, rhs) for new in _anywhere(lhs, others))
            yield from (Binary(op, lhs, new) for new in _anywhere(rhs, others))
        case Select():
            yield from _fields(value, ("cond", "then", "other"), others)
        case tuple():
            for n, part in enumerate(value):
                if not isinstance(part, Stmt):
                    for new in _anywhere(part, others):
                        yield (*value[:n], new, *value[n + 1 :])
        case Expr() | Event() | str() | int() | float() | None:
            return
        case _ if hasattr(value, "__match_args__"):
            bound = _BINDS.get(type(value), ())
            if isinstance(value, Stmt) and not isinstance(value, For):
                bound = value.TRAITS.binds
            yield from _fields(value, [n for n in value.__match_args__ if n not in bound], others)


def _fields(value: Any, names: Any, others: Callable[[Name], list[Name]]) -> Iterator[Any]:
    for name in names:
        for new in _anywhere(getattr(value, name), others):
            yield replace(value, **{name: new})
