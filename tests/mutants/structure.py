"""Statements elsewhere: out of what holds them, into what stands beside, further on, in another
role, with others around; and what decides whether they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from lowering.ground.expr import Binary, Expr
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, Break, Elect, If, OnWarp, Roles, Stmt
from lowering.kernel.visit import bodies, rename, used
from tests.mutants.places import Name, Place, holding, matters, orders, text_of

__all__ = ["copied", "decided", "elsewhere", "roles"]

Edit = tuple[str, str, Kernel]
"""The class of an edit, what it is, and what came of it."""


def elsewhere(place: Place) -> Iterator[tuple[Edit, Body]]:
    """A statement in the list around its own, in that of its neighbour, further on, or by one; and
    what it has passed on its way in its list.
    """
    stmt, text = place.stmt, text_of(place.stmt)
    if not matters(stmt):
        return
    for what, kernel, passed in (*_out(place), *_into(place)):
        yield ("nest", f"{text} {what}", kernel), passed
    for what, kernel, passed in _further(place):
        yield ("further", f"{text} {what}", kernel), passed
    if orders(stmt):
        yield ("nest", f"{text} by one thread of each warp", place.with_(Elect((stmt,)))), ()
        alone = OnWarp(0, (stmt,), "warpgroup.warp")
        yield ("nest", f"{text} by one warp of each four", place.with_(alone)), ()


def _out(place: Place) -> Iterator[tuple[str, Kernel, Body]]:
    """In front of and behind what holds the statement."""
    outer = place.outer
    if outer is None:
        return
    rest = (*place.body[: place.at], *place.body[place.at + 1 :])
    held = holding(outer.stmt, place.index, rest)
    text = text_of(outer.stmt)
    before, behind = place.body[: place.at], place.body[place.at + 1 :]
    yield f"out in front of {text}", outer.with_(place.stmt, held), before
    yield f"out behind {text}", outer.with_(held, place.stmt), behind


def _into(place: Place) -> Iterator[tuple[str, Kernel, Body]]:
    """First in the neighbour behind it, last in the one in front; of roles, in each."""
    stmt, body, at = place.stmt, place.body, place.at
    for n in (at + 1, at - 1):
        if not 0 <= n < len(body):
            continue
        for index, inner in enumerate(bodies(body[n])):
            if inner or index == 0:
                new = holding(body[n], index, (stmt, *inner) if n > at else (*inner, stmt))
                kernel = place.with_(new, over=2, first=min(n, at))
                yield f"into {text_of(body[n])}", kernel, ()


def _further(place: Place) -> Iterator[tuple[str, Kernel, Body]]:
    """Behind the second and third statement that matters, at the list's end and its beginning."""
    stmt, body, at = place.stmt, place.body, place.at
    later = [n for n in range(at + 1, len(body)) if matters(body[n])]
    sooner = [n for n in range(at) if matters(body[n])]
    for n in dict.fromkeys((*later[1:3], *later[2:][-1:])):
        moved = place.with_(*body[at + 1 : n + 1], stmt, over=n + 1 - at)
        yield f"further behind {text_of(body[n])}", moved, body[at + 1 : n + 1]
    for n in dict.fromkeys((*sooner[:-1][:1], *sooner[:-1][-1:])):
        moved = place.with_(stmt, *body[n:at], over=at + 1 - n, first=n)
        yield f"further in front of {text_of(body[n])}", moved, body[n:at]


def decided(place: Place) -> Iterator[tuple[Edit, Body]]:
    """A branch taken where it was not, and a loop left elsewhere: with what it has passed."""
    stmt, body, at, text = place.stmt, place.body, place.at, text_of(place.stmt)
    match stmt:
        case If(cond=cond, then=then, other=other):
            for name, new in _not(cond):
                yield ("decide", f"{text} if {name}", place.with_(replace(stmt, cond=new))), ()
            if other:
                swapped = replace(stmt, then=other, other=then)
                yield ("decide", f"{text} branches exchanged", place.with_(swapped)), ()
        case Break(cond=cond):
            for name, new in _not(cond):
                yield ("decide", f"{text} if {name}", place.with_(replace(stmt, cond=new))), ()
            yield ("decide", f"{text} dropped", place.with_()), ()
            for n in range(at + 1, min(at + 4, len(body))):
                passed = body[at + 1 : n + 1]
                moved = place.with_(*passed, stmt, over=n + 1 - at)
                far = "far " if n > at + 1 else ""
                yield ("decide", f"{text} {far}behind {text_of(body[n])}", moved), passed
            for n in range(max(at - 3, 0), at):
                moved = place.with_(stmt, *body[n:at], over=at + 1 - n, first=n)
                yield ("decide", f"{text} in front of {text_of(body[n])}", moved), body[n:at]


def _not(cond: Expr) -> Iterator[tuple[str, Expr]]:
    """What a condition may be mistaken for: its contrary, and one that is off by one."""
    match cond:
        case Binary("<", lhs, rhs):
            other = Binary("<=", lhs, rhs)
            yield str(other), other
            other = Binary("<=", rhs, lhs)
            yield str(other), other
        case Binary("<=", lhs, rhs):
            other = Binary("<", lhs, rhs)
            yield str(other), other
            other = Binary("<", rhs, lhs)
            yield str(other), other
        case Binary("==", lhs, rhs):
            for op in ("<", "<="):
                yield str(Binary(op, lhs, rhs)), Binary(op, lhs, rhs)
        case Binary("and" | "or" as op, lhs, rhs):
            swapped = Binary("or" if op == "and" else "and", lhs, rhs)
            yield str(swapped), swapped
            yield str(lhs), lhs
            yield str(rhs), rhs


def copied(every: Sequence[Place]) -> Iterator[tuple[str, str, Kernel, Stmt]]:
    """A statement of one role behind one of another, by the names of the latter."""
    kept = [p for p in every if orders(p.stmt) and p.role is not None]
    roles = dict.fromkeys(p.role.name for p in kept if p.role is not None)
    for place in kept:
        text = text_of(place.stmt)
        for name in roles:
            there = [p for p in kept if p.role is not None and p.role.name == name]
            if place.role is None or name == place.role.name:
                continue
            to = Random(f"{text} {name}").choice(there)
            if (stmt := _at(place.stmt, place.scope, to.scope)) is not None:
                what = f"{text} of {place.role.name} behind {text_of(to.stmt)} of {name}"
                yield "copy", what, to.with_(to.stmt, stmt), stmt


def _at(stmt: Stmt, there: tuple[Name, ...], here: tuple[Name, ...]) -> Stmt | None:
    """A statement with names of another scope: those that are not in it are the last ones of their
    types; None where it has none.
    """
    known = {name.name for name in here}
    names: dict[str, Name] = {n.name: n for n in there if n.name not in known}
    found = {}
    for name in used(stmt) & names.keys():
        alike = [n for n in here if n.type == names[name].type]
        if not alike:
            return None
        found[names[name]] = alike[-1]
    scalars = {a: b for a, b in found.items() if isinstance(a, Expr) and isinstance(b, Expr)}
    frags = {a.name: b for a, b in found.items() if not isinstance(a, Expr)}
    (new,) = rename((stmt,), scalars, frags)
    return new


def roles(place: Place) -> Iterator[Edit]:
    """Roles of other warps, and two with each other's work."""
    stmt = place.stmt
    if not isinstance(stmt, Roles):
        return
    for n, role in enumerate(stmt.roles):
        first, warps = role.first_warp, role.warps
        others = [
            (first + 4, warps), (first, warps + 4), (first, warps - 4), (first + 4, warps - 4),
            (first + 1, warps - 1),
        ]  # fmt: skip
        for a, b in others:
            if b > 0:
                new = replace(role, first_warp=a, warps=b)
                several = (*stmt.roles[:n], new, *stmt.roles[n + 1 :])
                what = f"{role.name}: warps {a} .. {a + b}"
                yield "role", what, place.with_(replace(stmt, roles=several))
    if len(stmt.roles) == 2:
        one, other = stmt.roles
        spans = (
            replace(one, first_warp=other.warps), replace(other, first_warp=0),
        )  # fmt: skip
        yield "role", "one after the other exchanged", place.with_(replace(stmt, roles=spans))
