"""Final kernels broken mechanically: every synchronizing statement, number, place, one at a time.

A *mutant* is a kernel with one edit: of a statement (``tests.mutants.statements``), of where it
stands, or of a declaration (``tests.mutants.declarations``). Each kind of edit goes over all places
where it can be made, in the order of the text, so that a mutant has a number; those of scalars
come last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Elect,
    FenceProxyAsync,
    If,
    LdWord,
    Let,
    OnWarp,
    Stmt,
    Tcgen05WaitLoad,
    WgmmaWait,
)
from tests.mutants.arrays import other_places, other_threads
from tests.mutants.declarations import redeclared
from tests.mutants.names import exchanged, renamed
from tests.mutants.places import Place, changed_text, matters, orders, places, text_of
from tests.mutants.scalars import otherwise
from tests.mutants.statements import changed
from tests.mutants.structure import copied, decided, elsewhere, roles

__all__ = ["Mutant", "mutants"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A kernel with one edit.

    Args:
        kind: the class of the edit.
        what: the statement or declaration that was edited, and what it is now.
        kernel: what came of it.
        stmt: the statement; None of a declaration.
        new: what stands in its place, where that is one with another number, index or operand.
        passed: what it stands beyond now, of its own list.
    """

    kind: str
    what: str
    kernel: Kernel
    stmt: Stmt | None = None
    new: Stmt | None = None
    passed: Body = ()


def mutants(kernel: Kernel) -> Iterator[Mutant]:
    """All mutants of a final kernel."""
    for kind, what, storage in redeclared(kernel):
        yield Mutant(kind, what, replace(kernel, storage=storage))
    every = list(places(kernel))
    for place in every:
        stmt, text = place.stmt, text_of(place.stmt)
        if orders(stmt):
            yield Mutant("drop", text, place.with_(), stmt)
            if not isinstance(stmt, LdWord | WgmmaWait | Tcgen05WaitLoad):
                yield Mutant("double", text, place.with_(stmt, stmt), stmt)
            yield from _moved(place)
            yield from _swapped(place)
        for kind, new in changed(stmt):
            yield Mutant(kind, f"{text} -> {text_of(new)}", place.with_(new), stmt, new)
        if isinstance(stmt, Elect | OnWarp):
            yield Mutant("threads", text, place.with_(*stmt.body), stmt)
        if isinstance(stmt, FenceProxyAsync):
            yield Mutant("threads", f"by one: {text}", place.with_(Elect((stmt,))), stmt)
        if isinstance(stmt, If):
            yield Mutant("condition", f"always: {text}", place.with_(*stmt.then), stmt)
            yield Mutant("condition", f"never: {text}", place.with_(*stmt.other), stmt)
    for place in every:
        if isinstance(stmt := place.stmt, Let):
            for value in otherwise(stmt.value):
                new = replace(stmt, value=value)
                what = f"{text_of(stmt)} -> {value}"
                yield Mutant("scalar", what, place.with_(new), stmt, new)
    for place in every:
        yield from _others(place)
        for (kind, what, edited), passed in (*elsewhere(place), *decided(place)):
            yield Mutant(kind, what, edited, place.stmt, passed=passed)
        for kind, what, edited in roles(place):
            yield Mutant(kind, what, edited, place.stmt)
    for kind, what, edited, copy in copied(every):
        yield Mutant(kind, what, edited, copy)


def _others(place: Place) -> Iterator[Mutant]:
    """A statement with another name, array, or scope."""
    stmt, kernel = place.stmt, place.kernel
    classes = {
        "name": renamed(place),
        "exchange": exchanged(stmt),
        "array": other_places(kernel, stmt),
        "scope": other_threads(kernel, stmt),
    }
    for kind, every in classes.items():
        for new in every:
            yield Mutant(kind, changed_text(stmt, new), place.with_(new), stmt, new)


def _moved(place: Place) -> Iterator[Mutant]:
    """A statement behind the next one that matters in the same list, and in front of the last."""
    stmt, body, at = place.stmt, place.body, place.at
    n = next((n for n in range(at + 1, len(body)) if matters(body[n])), None)
    if n is not None and body[n] != stmt:
        moved = place.with_(*body[at + 1 : n + 1], stmt, over=n + 1 - at)
        yield Mutant("move", f"{text_of(stmt)} behind {text_of(body[n])}", moved, stmt)
    n = next((n for n in range(at - 1, -1, -1) if matters(body[n])), None)
    if n is not None and not orders(body[n]):  # else that one behind this one is the same
        moved = place.with_(stmt, *body[n:at], over=at + 1 - n, first=n)
        yield Mutant("move", f"{text_of(stmt)} in front of {text_of(body[n])}", moved, stmt)


def _swapped(place: Place) -> Iterator[Mutant]:
    """A statement and the next one that orders, with what stands between them left alone."""
    stmt, body, at = place.stmt, place.body, place.at
    n = next((n for n in range(at + 1, len(body)) if orders(body[n])), None)
    if n is not None and any(matters(s) for s in body[at + 1 : n]) and body[n] != stmt:
        swapped = place.with_(body[n], *body[at + 1 : n], stmt, over=n + 1 - at)
        yield Mutant("swap", f"{text_of(stmt)} and {text_of(body[n])}", swapped, stmt)
