"""Walking and rewriting statement trees. Recursion is the default; nothing is skipped silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from operator import is_
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from lowering.ground.expr import Expr, Var, free_vars, substitute
from lowering.kernel.control import Carry, Elect, For, If, OnWarp, Role, Roles, Section
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Body, Frag, Stmt
from lowering.kernel.ring import WaitFull

__all__ = [
    "Names",
    "bodies",
    "changed",
    "consumes",
    "defined",
    "expressions",
    "kept",
    "map_bodies",
    "map_exprs",
    "map_roles",
    "operands",
    "rename",
    "rewrite",
    "take_name",
    "used",
    "walk",
]

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Node = TypeVar("_Node", bound=DataclassInstance)


def bodies(stmt: Stmt) -> tuple[Body, ...]:
    """The statement lists directly inside ``stmt``."""
    if isinstance(stmt, For | Elect | OnWarp | Section):
        return (stmt.body,)
    if isinstance(stmt, If):
        return (stmt.then, stmt.other)
    if isinstance(stmt, Roles):
        return tuple(r.body for r in stmt.roles)
    return ()


def map_bodies(stmt: Stmt, f: Callable[[Body], Body]) -> Stmt:
    """``stmt`` with ``f`` applied to each statement list directly inside it."""
    if isinstance(stmt, For | Elect | OnWarp | Section):
        return changed(stmt, {"body": f(stmt.body)})
    if isinstance(stmt, If):
        return changed(stmt, {"then": f(stmt.then), "other": f(stmt.other) if stmt.other else ()})
    if isinstance(stmt, Roles):
        roles = [changed(r, {"body": f(r.body)}) for r in stmt.roles]
        return changed(stmt, {"roles": kept(stmt.roles, roles)})
    return stmt


def map_roles(kernel: Kernel, f: Callable[[Role], Role]) -> Kernel:
    """The kernel with ``f`` applied to every role."""

    def visit(stmt: Stmt) -> Stmt:
        return Roles(tuple(f(r) for r in stmt.roles)) if isinstance(stmt, Roles) else stmt

    return replace(kernel, body=tuple(visit(s) for s in kernel.body))


def walk(body: Body) -> Iterator[Stmt]:
    """Every statement, parents first, in program order."""
    for stmt in body:
        yield stmt
        for inner in bodies(stmt):
            yield from walk(inner)


def rewrite(body: Body, f: Callable[[Stmt], Body | None]) -> Body:
    """Replace statements bottom-up: ``f`` returns the replacement, or None for unchanged."""
    out: list[Stmt] = []
    for stmt in body:
        stmt = map_bodies(stmt, lambda inner: rewrite(inner, f))
        new = f(stmt)
        out.extend((stmt,) if new is None else new)
    return kept(body, out)


def kept(old: tuple[Any, ...], new: Sequence[Any]) -> tuple[Any, ...]:
    """``new``, as the tuple that was there if its elements are the very same."""
    same = len(old) == len(new) and all(map(is_, old, new))
    return old if same else tuple(new)


def changed(node: _Node, values: Mapping[str, Any]) -> _Node:
    """``node`` with other values in some fields; itself where they are the very same.

    Most of a tree stays as it is in most passes, and a new node costs ten times a look at it.
    """
    if all(getattr(node, name) is value for name, value in values.items()):
        return node
    return replace(node, **values)


_fields: Callable[[type], tuple[str, ...]] = cache(lambda cls: tuple(x.name for x in fields(cls)))
"""Names of a dataclass's fields."""


def _map(value: Any, f: Callable[[Expr], Expr], g: Callable[[Frag], Frag]) -> Any:
    """``value`` with ``f`` on the expressions and ``g`` on the fragments directly in it."""
    if isinstance(value, (str, int, NoneType)):
        return value
    if isinstance(value, Frag):
        return g(value)
    if isinstance(value, Expr):
        return f(value)
    if isinstance(value, tuple):
        if value and isinstance(value[0], (Stmt, Role)):
            return value
        return kept(value, [_map(v, f, g) for v in value])
    if is_dataclass(value) and not isinstance(value, (Stmt, type)):
        return changed(value, {n: _map(getattr(value, n), f, g) for n in _fields(type(value))})
    return value


def map_exprs(stmt: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """``stmt`` with ``f`` applied to each expression operand (not inside its statement lists).

    Binding occurrences (let, loop, carry, group variables) are expressions too and are passed to
    ``f``, so ``f`` must map a variable to a variable where it is bound.
    """
    names = _fields(type(stmt))
    return changed(stmt, {n: _map(getattr(stmt, n), f, lambda g: g) for n in names})


def rename(
    body: Body, scalars: Mapping[Var, Expr], frags: Mapping[str, Frag] | None = None
) -> Body:
    """Substitute scalars and fragments everywhere in ``body``."""
    table = frags or {}

    def scalar(e: Expr) -> Expr:
        return substitute(e, scalars)

    def frag(f: Frag) -> Frag:
        return table.get(f.name, f)

    def one(stmt: Stmt) -> Stmt:
        values = {n: _map(getattr(stmt, n), scalar, frag) for n in _fields(type(stmt))}
        return map_bodies(changed(stmt, values), all_of)

    def all_of(inner: Body) -> Body:
        return kept(inner, [one(s) for s in inner])

    return all_of(body)


def expressions(stmt: Stmt) -> list[Expr]:
    """The expression operands of ``stmt`` itself, bound variables excluded."""
    bound = set(defined(stmt))
    found: list[Expr] = []

    def note(e: Expr) -> Expr:
        found.append(e)
        return e

    map_exprs(stmt, note)
    return [e for e in found if not (isinstance(e, Var) and e.name in bound)]


def consumes(body: Body, ring: str) -> bool:
    """Whether ``body`` waits for steps of a ring, at any depth."""
    return any(isinstance(s, WaitFull) and s.ring == ring for s in walk(body))


def defined(stmt: Stmt) -> list[str]:
    """Names that ``stmt`` itself binds, inside or after it."""
    return [n for field in stmt.TRAITS.binds for n in _bound(getattr(stmt, field, None))]


def _bound(value: object) -> list[str]:
    """Names of the values that stand in a field that binds."""
    match value:
        case Frag(name) | Var(name):
            return [name]
        case Carry(var=var, result=result):
            return [var.name, result.name]
        case Role(group=group):
            return _bound(group)
        case tuple():
            return [n for v in value for n in _bound(v)]
    return []


def operands(stmt: Stmt) -> Iterator[Any]:
    """What stands in the fields of ``stmt`` that it reads, element by element of a tuple.

    Of a loop's carried values the first ones; statement lists are left out.
    """
    for name in _fields(type(stmt)):
        value = getattr(stmt, name)
        for v in value if isinstance(value, tuple) else (value,):
            if isinstance(v, Carry):
                yield v.init
            elif name not in stmt.TRAITS.binds and not isinstance(v, (Stmt, Role)):
                yield v


def used(stmt: Stmt) -> set[str]:
    """Names of scalars and fragments that ``stmt`` itself reads (not its statement lists)."""
    names: set[str] = set()

    def expr(e: Expr) -> Expr:
        names.update(v.name for v in free_vars(e))
        return e

    def frag(f: Frag) -> Frag:
        names.add(f.name)
        return f

    for value in operands(stmt):
        if not isinstance(value, (str, int, Enum, NoneType)):
            _map(value, expr, frag)
    return names


def take_name(base: str, taken: set[str]) -> str:
    """``base``, or ``base`` with the smallest number from 2 on that makes it new; taken then."""
    name, number = base, 2
    while name in taken:
        name, number = f"{base}{number}", number + 1
    taken.add(name)
    return name


class Names:
    """New names for a kernel: never one that it defines, never the same twice."""

    def __init__(self, kernel: Kernel) -> None:
        self._taken = {p.name for p in kernel.params}
        self._taken |= {n for s in walk(kernel.body) for n in defined(s)}
        self._taken |= {s.name for s in kernel.storage}
        self._taken |= {stride for g in kernel.globals for e in g.entries for stride in e.strides}

    def new(self, base: str) -> str:
        """A new name like ``base``."""
        return take_name(base, self._taken)
