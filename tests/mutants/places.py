"""Where a statement of a kernel stands: its list, what holds the list, and the names in scope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lowering.ground.expr import Var
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Break,
    For,
    Frag,
    Role,
    Roles,
    Stmt,
    StWord,
    Tcgen05Mma,
    TmaLoad,
    TmaStore,
)
from lowering.kernel.text import print_stmt
from lowering.kernel.traits import Memory
from lowering.kernel.visit import bodies, map_bodies

__all__ = [
    "Name",
    "Place",
    "after",
    "changed_text",
    "holding",
    "inside",
    "matters",
    "orders",
    "places",
    "text_of",
]

Name = Var | Frag
"""What a statement binds, and another one may read."""

_SHARED = Memory.SHARED | Memory.SHARED_ASYNC


@dataclass(frozen=True, slots=True)
class Place:
    """Statement ``at`` of ``body``, which is list ``index`` of the statement at ``outer``, or the
    kernel's own; ``scope`` are the names that may stand in it, the last ones bound last.
    """

    kernel: Kernel
    body: Body
    at: int
    scope: tuple[Name, ...]
    outer: Place | None = None
    index: int = 0

    @property
    def stmt(self) -> Stmt:
        return self.body[self.at]

    @property
    def role(self) -> Role | None:
        """The role that it is part of; the innermost one."""
        outer = self.outer
        if outer is None:
            return None
        return outer.stmt.roles[self.index] if isinstance(outer.stmt, Roles) else outer.role

    def put(self, new: Body) -> Kernel:
        """The kernel with another list in place of ``body``."""
        outer = self.outer
        if outer is None:
            return replace(self.kernel, body=new)
        return outer.with_(holding(outer.stmt, self.index, new))

    def with_(self, *stmts: Stmt, over: int = 1, first: int | None = None) -> Kernel:
        """The kernel with others in place of ``over`` statements, from ``first`` on."""
        begin = self.at if first is None else first
        return self.put((*self.body[:begin], *stmts, *self.body[begin + over :]))


def holding(stmt: Stmt, index: int, new: Body) -> Stmt:
    """A statement with ``new`` as the ``index``-th one of its lists."""
    lists = bodies(stmt)
    numbers = iter([n for n, inner in enumerate(lists) if inner or n == 0])
    return map_bodies(stmt, lambda old: new if next(numbers) == index else old)


def places(kernel: Kernel) -> Iterator[Place]:
    """All of a kernel, in the order of the text."""
    return _places(kernel, kernel.body, kernel.params)


def _places(
    kernel: Kernel,
    body: Body,
    scope: tuple[Name, ...],
    outer: Place | None = None,
    index: int = 0,
) -> Iterator[Place]:
    for at, stmt in enumerate(body):
        place = Place(kernel, body, at, scope, outer, index)
        yield place
        for n, inner in enumerate(bodies(stmt)):
            yield from _places(kernel, inner, (*scope, *inside(stmt, n)), place, n)
        scope = (*scope, *after(stmt))


def inside(stmt: Stmt, index: int) -> Iterator[Name]:
    """The names that a statement binds for its ``index``-th list."""
    match stmt:
        case For(var=var, carries=carries):
            yield var
            yield from (carry.var for carry in carries)
        case Roles(roles=roles) if (group := roles[index].group) is not None:
            yield group


def after(stmt: Stmt) -> Iterator[Name]:
    """The names that a statement binds for those behind it."""
    match stmt:
        case For(carries=carries):
            yield from (carry.result for carry in carries)
        case Roles():
            pass
        case _:
            values = (getattr(stmt, n) for n in stmt.TRAITS.binds if n in stmt.__match_args__)
            for value in values:
                names = value if isinstance(value, tuple) else (value,)
                yield from (name for name in names if isinstance(name, Name))


def orders(stmt: Stmt) -> bool:
    """Whether it waits, signals, orders, or copies by itself, and has no others inside."""
    copies = isinstance(stmt, TmaLoad | TmaStore | StWord | Tcgen05Mma)
    return not bodies(stmt) and (
        copies or (stmt.TRAITS.synchronizes and not isinstance(stmt, Break))
    )


def matters(stmt: Stmt) -> bool:
    """Whether it touches shared memory, orders anything, or has others inside."""
    return orders(stmt) or bool(stmt.TRAITS.touches & _SHARED) or bool(bodies(stmt))


def text_of(stmt: Stmt) -> str:
    """Its text, of a statement with others inside the first line."""
    lines = print_stmt(stmt).strip().splitlines()
    return lines[0].strip() + (" ..." if len(lines) > 1 else "")


def changed_text(old: Stmt, new: Stmt) -> str:
    """Its text before and behind an edit: its first line, and the first one that is another."""
    pairs = zip(print_stmt(old).splitlines(), print_stmt(new).splitlines(), strict=False)
    was, now = next(((a.strip(), b.strip()) for a, b in pairs if a != b), ("", ""))
    head = text_of(old)
    return f"{was} -> {now}" if head.startswith(was) else f"{head} {was} -> {now}"
