"""Final kernels broken mechanically: every synchronizing statement, number, place, one at a time.

A *mutant* is a kernel with one edit: of a statement (``tests.mutants.statements``), of where it
stands, or of a declaration (``tests.mutants.declarations``). Each kind of edit goes over all places
where it can be made, in the order of the text, so that a mutant has a number; those of scalars
come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Break,
    Elect,
    FenceProxyAsync,
    If,
    LdWord,
    Let,
    OnWarp,
    Stmt,
    StWord,
    Tcgen05Mma,
    Tcgen05WaitLoad,
    TmaLoad,
    TmaStore,
    WgmmaWait,
)
from lowering.kernel.text import print_stmt
from lowering.kernel.traits import Memory
from lowering.kernel.visit import bodies, map_bodies
from tests.mutants.declarations import redeclared
from tests.mutants.scalars import otherwise
from tests.mutants.statements import changed

__all__ = ["Mutant", "mutants"]

_SHARED = Memory.SHARED | Memory.SHARED_ASYNC


@dataclass(frozen=True, slots=True)
class Mutant:
    """A kernel with one edit.

    Args:
        kind: the class of the edit.
        what: the statement or declaration that was edited, and what it is now.
        kernel: what came of it.
        stmt: the statement; None of a declaration.
        new: what stands in its place, where that is one with another number, index or operand.
    """

    kind: str
    what: str
    kernel: Kernel
    stmt: Stmt | None = None
    new: Stmt | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """Statement ``at`` of ``body``; ``put`` makes a kernel with another list in its place."""

    body: Body
    at: int
    put: Callable[[Body], Kernel]

    @property
    def stmt(self) -> Stmt:
        return self.body[self.at]

    def with_(self, *stmts: Stmt, over: int = 1, first: int | None = None) -> Kernel:
        """The kernel with others in place of ``over`` statements, from ``first`` on."""
        begin = self.at if first is None else first
        return self.put((*self.body[:begin], *stmts, *self.body[begin + over :]))


def mutants(kernel: Kernel) -> Iterator[Mutant]:
    """All mutants of a final kernel."""
    for kind, what, storage in redeclared(kernel):
        yield Mutant(kind, what, replace(kernel, storage=storage))
    places = list(_places(kernel.body, lambda body: replace(kernel, body=body)))
    for place in places:
        stmt, text = place.stmt, _text(place.stmt)
        if _orders(stmt):
            yield Mutant("drop", text, place.with_(), stmt)
            if not isinstance(stmt, LdWord | WgmmaWait | Tcgen05WaitLoad):
                yield Mutant("double", text, place.with_(stmt, stmt), stmt)
            yield from _moved(place)
            yield from _swapped(place)
        for kind, new in changed(stmt):
            yield Mutant(kind, f"{text} -> {_text(new)}", place.with_(new), stmt, new)
        if isinstance(stmt, Elect | OnWarp):
            yield Mutant("threads", text, place.with_(*stmt.body), stmt)
        if isinstance(stmt, FenceProxyAsync):
            yield Mutant("threads", f"by one: {text}", place.with_(Elect((stmt,))), stmt)
        if isinstance(stmt, If):
            yield Mutant("condition", f"always: {text}", place.with_(*stmt.then), stmt)
            yield Mutant("condition", f"never: {text}", place.with_(*stmt.other), stmt)
    for place in places:
        if isinstance(stmt := place.stmt, Let):
            for value in otherwise(stmt.value):
                new = replace(stmt, value=value)
                what = f"{_text(stmt)} -> {value}"
                yield Mutant("scalar", what, place.with_(new), stmt, new)


def _orders(stmt: Stmt) -> bool:
    copies = isinstance(stmt, TmaLoad | TmaStore | StWord | Tcgen05Mma)
    return not bodies(stmt) and (
        copies or (stmt.TRAITS.synchronizes and not isinstance(stmt, Break))
    )


def _matters(stmt: Stmt) -> bool:
    """Whether it touches shared memory, orders anything, or has others inside."""
    return _orders(stmt) or bool(stmt.TRAITS.touches & _SHARED) or bool(bodies(stmt))


def _moved(place: _Place) -> Iterator[Mutant]:
    """A statement behind the next one that matters in the same list, and in front of the last."""
    stmt, body, at = place.stmt, place.body, place.at
    n = next((n for n in range(at + 1, len(body)) if _matters(body[n])), None)
    if n is not None and body[n] != stmt:
        moved = place.with_(*body[at + 1 : n + 1], stmt, over=n + 1 - at)
        yield Mutant("move", f"{_text(stmt)} behind {_text(body[n])}", moved, stmt)
    n = next((n for n in range(at - 1, -1, -1) if _matters(body[n])), None)
    if n is not None and not _orders(body[n]):  # else that one behind this one is the same
        moved = place.with_(stmt, *body[n:at], over=at + 1 - n, first=n)
        yield Mutant("move", f"{_text(stmt)} in front of {_text(body[n])}", moved, stmt)


def _swapped(place: _Place) -> Iterator[Mutant]:
    """A statement and the next one that orders, with what stands between them left alone."""
    stmt, body, at = place.stmt, place.body, place.at
    n = next((n for n in range(at + 1, len(body)) if _orders(body[n])), None)
    if n is not None and any(_matters(s) for s in body[at + 1 : n]) and body[n] != stmt:
        swapped = place.with_(body[n], *body[at + 1 : n], stmt, over=n + 1 - at)
        yield Mutant("swap", f"{_text(stmt)} and {_text(body[n])}", swapped, stmt)


def _places(body: Body, put: Callable[[Body], Kernel]) -> Iterator[_Place]:
    for at, stmt in enumerate(body):
        place = _Place(body, at, put)
        yield place
        for n, inner in enumerate(bodies(stmt)):
            yield from _places(inner, _inner(place, n))


def _inner(place: _Place, index: int) -> Callable[[Body], Kernel]:
    """What makes a kernel with another list as the ``index``-th one of a statement."""

    def put(new: Body) -> Kernel:
        lists = [*bodies(place.stmt)]
        numbers = iter([n for n, inner in enumerate(lists) if inner or n == 0])
        changed = map_bodies(place.stmt, lambda old: new if next(numbers) == index else old)
        return place.with_(changed)

    return put


def _text(stmt: Stmt) -> str:
    lines = print_stmt(stmt).strip().splitlines()
    return lines[0].strip() + (" ..." if len(lines) > 1 else "")
