"""Final kernels broken mechanically: every synchronizing statement, number, place, one at a time.

A *mutant* is a kernel with one edit. Each class of edits goes over all places where it can be made,
in the order of the text, so that a sample of them is every n-th.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

from lowering.ground.expr import Const, Expr
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Break,
    BulkWait,
    Elect,
    For,
    If,
    LdWord,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierRef,
    MBarrierWait,
    NamedBarrierRef,
    SetMaxNReg,
    SmemRef,
    Stmt,
    StWord,
    TmaLoad,
    TmaStore,
    WgmmaWait,
)
from lowering.kernel.text import print_stmt
from lowering.kernel.traits import Memory
from lowering.kernel.visit import bodies, map_bodies

__all__ = ["Mutant", "mutants"]

_SHARED = Memory.SHARED | Memory.SHARED_ASYNC


@dataclass(frozen=True, slots=True)
class Mutant:
    """A kernel with one edit.

    Args:
        kind: the class of the edit.
        what: the statement that was edited, and what it is now.
        kernel: what came of it.
    """

    kind: str
    what: str
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class _Place:
    """Statement ``at`` of ``body``; ``put`` makes a kernel with another list in its place."""

    body: Body
    at: int
    put: Callable[[Body], Kernel]

    @property
    def stmt(self) -> Stmt:
        return self.body[self.at]

    def with_(self, *stmts: Stmt, over: int = 1) -> Kernel:
        """The kernel with others in place of ``over`` statements."""
        return self.put((*self.body[: self.at], *stmts, *self.body[self.at + over :]))


def mutants(kernel: Kernel) -> Iterator[Mutant]:
    """All mutants of a final kernel."""
    for place in _places(kernel.body, lambda body: replace(kernel, body=body)):
        stmt, text = place.stmt, _text(place.stmt)
        if _orders(stmt):
            yield Mutant("drop", text, place.with_())
            if not isinstance(stmt, LdWord | WgmmaWait):
                yield Mutant("double", text, place.with_(stmt, stmt))
            yield from _moved(place)
        for kind, new in _changed(stmt):
            yield Mutant(kind, f"{text} -> {_text(new)}", place.with_(new))
        if isinstance(stmt, Elect):
            yield Mutant("threads", text, place.with_(*stmt.body))
        if isinstance(stmt, If):
            yield Mutant("condition", f"always: {text}", place.with_(*stmt.then))
            yield Mutant("condition", f"never: {text}", place.with_(*stmt.other))


def _orders(stmt: Stmt) -> bool:
    copies = isinstance(stmt, TmaLoad | TmaStore | StWord)
    return not bodies(stmt) and (
        copies or (stmt.TRAITS.synchronizes and not isinstance(stmt, Break))
    )


def _moved(place: _Place) -> Iterator[Mutant]:
    """A statement behind the next one that touches memory or orders it, in the same list."""
    stmt = place.stmt
    for n in range(place.at + 1, len(place.body)):
        other = place.body[n]
        if other == stmt:
            return
        if _orders(other) or other.TRAITS.touches & _SHARED or bodies(other):
            passed = place.body[place.at + 1 : n + 1]
            moved = place.with_(*passed, stmt, over=n + 1 - place.at)
            yield Mutant("move", f"{_text(stmt)} behind {_text(other)}", moved)
            return


def _changed(stmt: Stmt) -> Iterator[tuple[str, Stmt]]:
    """A statement with another number, index or order."""
    match stmt:
        case MBarrierInit(arrivals=n):
            yield "count", replace(stmt, arrivals=n + 1)
            yield "count", replace(stmt, arrivals=n - 1)
        case MBarrierExpectTx(bytes=Expr() as n):
            yield "bytes", replace(stmt, bytes=n + 16)
            yield "bytes", replace(stmt, bytes=n - 16)
        case MBarrierWait(parity=parity):
            yield "parity", replace(stmt, parity=parity ^ 1)
            if stmt.order == "acquire.cluster":
                yield "order", replace(stmt, order="relaxed.cluster")
        case WgmmaWait(pending=n):
            yield "pending", replace(stmt, pending=n + 1)
        case BulkWait(pending=n):
            yield "pending", replace(stmt, pending=n + 1)
        case SetMaxNReg(count=n):
            yield "registers", replace(stmt, count=n + 8)
        case TmaLoad(multicast=Expr() as mask):
            yield "target", replace(stmt, multicast=Const(1))
            yield "target", replace(stmt, multicast=mask << 1)
        case MBarrierArrive(cta=Expr() as cta):
            yield "target", replace(stmt, cta=cta ^ 1)
            if stmt.order == "release.cluster":
                yield "order", replace(stmt, order="relaxed.cluster")
        case For(carries=carries, yields=yields):
            for n, carry in enumerate(carries):
                if isinstance(carry.init, Expr):
                    new = replace(carry, init=carry.init + 1)
                    yield "carry", replace(stmt, carries=(*carries[:n], new, *carries[n + 1 :]))
                    y = yields[n]
                    assert isinstance(y, Expr)
                    yield "carry", replace(stmt, yields=(*yields[:n], y + 1, *yields[n + 1 :]))
            if not stmt.unroll:
                yield "trips", replace(stmt, stop=stmt.stop + 1)
                yield "trips", replace(stmt, start=stmt.start + 1)
    if not bodies(stmt):
        yield from _reindexed(stmt)


def _reindexed(stmt: Stmt) -> Iterator[tuple[str, Stmt]]:
    """A statement with the next stage, or the next named barrier."""
    for f in fields(stmt):
        match getattr(stmt, f.name):
            case MBarrierRef(index=index) as ref if not isinstance(index, Const):
                yield "stage", replace(stmt, **{f.name: replace(ref, index=index + 1)})
            case NamedBarrierRef(index=index) as ref:
                yield "barrier", replace(stmt, **{f.name: replace(ref, index=index ^ 1)})
            case SmemRef(stage=stage) as ref:
                yield "stage", replace(stmt, **{f.name: replace(ref, stage=stage + 1)})


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
