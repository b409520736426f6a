"""Stamp when each role waits, computes and stores; nothing unless the options ask for a trace.

Requires: a load side whose loop over a tile's steps stands in the loop over tiles, if there is one;
a main loop that waits for step ``m``, where the trips of one loop make up one tile, or a part of
one where its begin is carried; chunks of the result stored by TMA.
Guarantees: in its trace buffer each warp notes begin and end of, with the number of the tile among
those of its CTA,

- ``load``: the loop that fills the steps of a tile,
- ``turn``: the wait for the other group at an ordering barrier,
- ``main_loop``: the wgmmas of a tile, up to the wait for the last one,
- ``epilogue``: everything behind it, up to the last store, in which
- ``store_wait`` is the wait until a buffer of the epilogue has been read,

and, without a tile, ``drain`` (the wait for the last stores) and ``cta``. The latter is stamped by
both clocks, the second time with the SM, so that clocks of different SMs can be compared. Nothing
is in flight at a stamp, so that wgmmas are not serialized by one.

After ``order_pingpong`` (whose turns it stamps), before ``step_stages`` (barriers still name their
step).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Const, Expr, Special, Var, substitute
from lowering.ground.poly import Poly, poly
from lowering.kernel.kernel import Kernel, TraceBuffer
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    Body,
    BulkWait,
    Elect,
    For,
    If,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierWait,
    Stamp,
    Stmt,
    TmaStore,
    Wgmma,
    WgmmaWait,
)
from lowering.kernel.visit import Names, bodies, map_bodies, map_roles, walk
from passes.options import LoweringOptions
from passes.ring_barriers import step_of

__all__ = ["trace"]

EVENTS = ("cta", "load", "turn", "main_loop", "epilogue", "store_wait", "drain")


def trace(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Stamps around what a time line should show.

    before::

        for t in 0 .. tiles {
          bar.sync order[wg]
          for k in 0 .. n { mbarrier.wait full[(t * n + k) % 4], ...  (wgmma) }
          (epilogue)
        }

    after::

        trace spans[512](cta, load, turn, main_loop, epilogue, store_wait, drain)
        for t in 0 .. tiles {
          stamp spans, turn, begin, t
          bar.sync order[wg]
          stamp spans, turn, end, t
          stamp spans, main_loop, begin, t
          for k in 0 .. n { mbarrier.wait full[(t * n + k) % 4], ...  (wgmma) }
          stamp spans, main_loop, end, t
          stamp spans, epilogue, begin, t
          (epilogue)
          stamp spans, epilogue, end, t
        }

    Raises:
        InternalError: the trips of a main loop are not the steps of one tile.
    """
    if not options.trace_slots:
        return kernel
    buffer = TraceBuffer(Names(kernel).new("spans"), options.trace_slots, EVENTS)
    name, groups = buffer.name, _turns(kernel)
    kernel = map_roles(kernel, lambda r: replace(r, body=_stamped(r.body, name, groups, ZERO)))
    body = (_both_clocks(name, "begin"), *kernel.body, _both_clocks(name, "end"))
    return replace(kernel.declare(buffer), body=body)


def _turns(kernel: Kernel) -> dict[str, int]:
    """Barriers of each array that hands turns over: one group arrives, the other waits.

    At all others, those of stores for instance, the same threads meet.
    """
    handed = {s.bar.array for s in walk(kernel.body) if isinstance(s, BarArrive)}
    return {b.name: b.count for b in kernel.named_barriers if b.name in handed}


def _both_clocks(name: str, phase: str) -> Stmt:
    """The CTA by the SM's clock, then by the device's, from its first warp."""
    here = Stamp(name, "cta", phase, ZERO)
    everywhere = replace(here, value=Special("smid"), clock="globaltimer")
    return If(Special("warp").eq(0), (here, everywhere))


@dataclass(frozen=True, slots=True)
class _Span:
    """Statements ``first .. last`` of a list are one event."""

    event: str
    first: int
    last: int
    tile: Expr


def _stamped(
    body: Body, name: str, groups: Mapping[str, int], tile: Expr, storing: bool = False
) -> Body:
    """``body`` with stamps.

    Args:
        body: of a role, or within it.
        name: the trace buffer.
        groups: barriers of each array that hands turns over.
        tile: the tile that it belongs to, 0 where there is none.
        storing: whether it is of an epilogue.
    """
    spans = list(_spans(body, groups, tile))
    computed = next((s.tile for s in spans if s.event == "main_loop"), None)
    tile = tile if computed is None else computed
    out: list[Stmt] = []
    for i, stmt in enumerate(body):
        # Of spans that begin together the longer one is outside, and so it is of those that end.
        for s in sorted((s for s in spans if s.first == i), key=lambda s: -s.last):
            out.append(Stamp(name, s.event, "begin", s.tile))
        if any(s.event in ("load", "main_loop") and s.first == i for s in spans):
            out.append(stmt)  # nothing is stamped within
        elif isinstance(stmt, Elect) and isinstance(stmt.body[0], BulkWait):
            event, value = ("store_wait", tile) if storing else ("drain", ZERO)
            begin, end = (Stamp(name, event, phase, value) for phase in ("begin", "end"))
            out += [begin, stmt, end]
        else:
            inside = stmt.var if isinstance(stmt, For) and computed is None else tile
            stored = storing or any(s.event == "epilogue" and s.first <= i <= s.last for s in spans)
            within = partial(_stamped, name=name, groups=groups, tile=inside, storing=stored)
            out.append(map_bodies(stmt, within))
        for s in sorted((s for s in spans if s.last == i), key=lambda s: -s.first):
            out.append(Stamp(name, s.event, "end", s.tile))
    return tuple(out)


def _spans(body: Body, groups: Mapping[str, int], tile: Expr) -> Iterator[_Span]:
    """Events whose statements stand in this list themselves, within a loop over ``tile``."""
    for i, stmt in enumerate(body):
        if not isinstance(stmt, For):
            continue
        waits = [s for s in stmt.body if isinstance(s, MBarrierWait)]
        if waits and any(isinstance(s, Wgmma) for s in stmt.body):
            carried = isinstance(stmt.start, Var)
            of = _turn(body[:i], groups, tile) if carried else _tile(stmt, waits[0])
            yield from _tile_spans(body, i, groups, of)
            return
        if any(isinstance(s, MBarrierExpectTx) for s in _directly(stmt.body)):
            yield _Span("load", i, i, tile)


def _tile_spans(body: Body, main: int, groups: Mapping[str, int], tile: Expr) -> Iterator[_Span]:
    """Events of a tile whose main loop is statement ``main``."""
    last = main
    while last + 1 < len(body) and isinstance(body[last + 1], WgmmaWait):
        last += 1
    yield _Span("main_loop", main, last, tile)
    for i, stmt in enumerate(body):
        if isinstance(stmt, BarSync) and stmt.bar.array in groups:
            yield _Span("turn", i, i, tile)
    first = last + 1
    while first < len(body) and _signals(body[first]):
        first += 1  # the other group may begin; a stamp before that would make it wait
    stores = [i for i, s in enumerate(body) if any(isinstance(x, TmaStore) for x in walk((s,)))]
    if stores:
        yield _Span("epilogue", first, stores[-1], tile)


def _signals(stmt: Stmt) -> bool:
    """Whether a statement only arrives at barriers."""
    return all(isinstance(s, (If, Elect, MBarrierArrive, BarArrive)) for s in walk((stmt,)))


def _directly(body: Body) -> Iterator[Stmt]:
    """Statements of ``body`` and of branches in it, but not of loops."""
    for stmt in body:
        yield stmt
        if not isinstance(stmt, For):
            for inner in bodies(stmt):
                yield from _directly(inner)


def _turn(before: Body, groups: Mapping[str, int], tile: Expr) -> Expr:
    """Which of its CTA's tiles a main loop is about that begins within a tile (stream-K): the loop
    over tiles counts them, or the turns of its group.
    """
    orders = [s.bar for s in before if isinstance(s, BarSync)]
    return tile * groups[orders[0].array] + orders[0].index if orders else tile


def _tile(loop: For, wait: MBarrierWait) -> Expr:
    """Which of its CTA's tiles a main loop is about: its first step by its trips."""
    if step := step_of(wait):
        first = poly(substitute(step[0], {loop.var: loop.start}))
        terms = [_divided(term, loop.stop) for term in first.terms]
        if all(term is not None for term in terms):
            return Poly.of(t for t in terms if t is not None).expr()
    raise InternalError(
        "trace",
        f"the loop over {loop.var.name} begins at {wait.bar.index}, which is no whole number of "
        f"{loop.stop} steps",
    )


def _divided(term: tuple[tuple[Expr, ...], int], by: Expr) -> tuple[tuple[Expr, ...], int] | None:
    """A term of a polynomial divided, None if that leaves a rest."""
    atoms, factor = term
    if isinstance(by, Const):
        return (atoms, factor // by.value) if by.value and factor % by.value == 0 else None
    if by not in atoms:
        return None
    at = atoms.index(by)
    return (*atoms[:at], *atoms[at + 1 :]), factor
