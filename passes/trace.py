"""Stamp when each role waits, computes and stores; nothing unless the options ask for a trace.

Requires: a load side whose loop over a tile's steps stands in the loop over tiles, if there is one;
a main loop that says which tile its trips are steps of; chunks of the result stored by TMA.
Guarantees: no loop says so any more. In its trace buffer each warp notes begin and end of, with the
number of the tile among those of its CTA,

- ``load``: the loop that fills the steps of a tile,
- ``turn``: the wait for the other group at an ordering barrier,
- ``main_loop``: the wgmmas of a tile, up to the wait for the last one,
- ``epilogue``: everything behind it, up to the last store, in which
- ``store_wait`` is the wait until a buffer of the epilogue has been read,

and, without a tile, ``drain`` (the wait for the last stores) and ``cta``. The latter is stamped by
both clocks, the second time with the SM, so that clocks of different SMs can be compared. Nothing
is in flight at a stamp, so that wgmmas are not serialized by one.

After ``order_pingpong`` (whose turns it stamps).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from lowering.ground.expr import ZERO, Expr, Special
from lowering.kernel.kernel import Kernel, TraceBuffer
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    Body,
    BulkWait,
    CopyTile,
    CpAsync,
    Elect,
    For,
    If,
    MBarrierArrive,
    MBarrierExpectTx,
    OnWarp,
    Stamp,
    Stmt,
    TmaStore,
    WgmmaWait,
)
from lowering.kernel.visit import Names, bodies, map_bodies, map_roles, walk
from passes.options import LoweringOptions

__all__ = ["trace"]

_FILLS = (CopyTile, CpAsync, MBarrierExpectTx)
"""What a loop does that fills the steps of a tile: threads copy, or one says what TMA brings."""

EVENTS = ("cta", "load", "turn", "main_loop", "epilogue", "store_wait", "drain")


def trace(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Stamps around what a time line should show.

    before::

        for t in 0 .. tiles {
          bar.sync order[wg]
          for k in 0 .. n tile t { mbarrier.wait full[stage(t * n + k, 4)], ...  (wgmma) }
          (epilogue)
        }

    after::

        trace spans[512](cta, load, turn, main_loop, epilogue, store_wait, drain)
        for t in 0 .. tiles {
          stamp spans, turn, begin, t
          bar.sync order[wg]
          stamp spans, turn, end, t
          stamp spans, main_loop, begin, t
          for k in 0 .. n { mbarrier.wait full[stage(t * n + k, 4)], ...  (wgmma) }
          stamp spans, main_loop, end, t
          stamp spans, epilogue, begin, t
          (epilogue)
          stamp spans, epilogue, end, t
        }
    """
    body = kernel.body
    if options.trace_slots:
        buffer = TraceBuffer(Names(kernel).new("spans"), options.trace_slots, EVENTS)
        name, turns, kernel = buffer.name, _turns(kernel), kernel.declare(buffer)
        stamped = map_roles(kernel, lambda r: replace(r, body=_stamped(r.body, name, turns, ZERO)))
        body = (_both_clocks(name, "begin"), *stamped.body, _both_clocks(name, "end"))
    return replace(kernel, body=_untold(body))


def _untold(body: Body) -> Body:
    """``body`` whose loops do not say which tile they are about."""

    def untold(stmt: Stmt) -> Stmt:
        stmt = map_bodies(stmt, _untold)
        return replace(stmt, tile=None) if isinstance(stmt, For) else stmt

    return tuple(map(untold, body))


def _turns(kernel: Kernel) -> frozenset[str]:
    """The arrays of barriers that hand turns over: one group arrives, the other waits.

    At all others, those of stores for instance, the same threads meet.
    """
    return frozenset(s.bar.array for s in walk(kernel.body) if isinstance(s, BarArrive))


def _both_clocks(name: str, phase: str) -> Stmt:
    """The CTA by the SM's clock, then by the device's, from its first warp."""
    here = Stamp(name, "cta", phase, ZERO)
    everywhere = replace(here, value=Special("smid"), clock="globaltimer")
    return OnWarp(0, (here, everywhere))


@dataclass(frozen=True, slots=True)
class _Span:
    """Statements ``first .. last`` of a list are one event."""

    event: str
    first: int
    last: int
    tile: Expr


def _stamped(
    body: Body, name: str, turns: frozenset[str], tile: Expr, storing: bool = False
) -> Body:
    """``body`` with stamps.

    Args:
        body: of a role, or within it.
        name: the trace buffer.
        turns: arrays of barriers that hand turns over.
        tile: the tile that it belongs to, 0 where there is none.
        storing: whether it is of an epilogue.
    """
    spans = list(_spans(body, turns, tile))
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
            within = partial(_stamped, name=name, turns=turns, tile=inside, storing=stored)
            out.append(map_bodies(stmt, within))
        for s in sorted((s for s in spans if s.last == i), key=lambda s: -s.first):
            out.append(Stamp(name, s.event, "end", s.tile))
    return tuple(out)


def _spans(body: Body, turns: frozenset[str], tile: Expr) -> Iterator[_Span]:
    """Events whose statements stand in this list themselves, within a loop over ``tile``."""
    for i, stmt in enumerate(body):
        if not isinstance(stmt, For):
            continue
        if stmt.tile is not None:
            yield from _tile_spans(body, i, turns, stmt.tile)
            return
        if any(isinstance(s, _FILLS) for s in _directly(stmt.body)):
            yield _Span("load", i, i, tile)


def _tile_spans(body: Body, main: int, turns: frozenset[str], tile: Expr) -> Iterator[_Span]:
    """Events of a tile whose main loop is statement ``main``."""
    last = main
    while last + 1 < len(body) and isinstance(body[last + 1], WgmmaWait):
        last += 1
    yield _Span("main_loop", main, last, tile)
    for i, stmt in enumerate(body):
        if isinstance(stmt, BarSync) and stmt.bar.array in turns:
            yield _Span("turn", i, i, tile)
    first = last + 1
    while first < len(body) and _signals(body[first]):
        first += 1  # the other group may begin; a stamp before that would make it wait
    stores = [i for i, s in enumerate(body) if any(isinstance(x, TmaStore) for x in walk((s,)))]
    if stores:
        yield _Span("epilogue", first, stores[-1], tile)


def _signals(stmt: Stmt) -> bool:
    """Whether a statement only arrives at barriers."""
    return all(isinstance(s, (If, OnWarp, Elect, MBarrierArrive, BarArrive)) for s in walk((stmt,)))


def _directly(body: Body) -> Iterator[Stmt]:
    """Statements of ``body`` and of branches in it, but not of loops."""
    for stmt in body:
        yield stmt
        if not isinstance(stmt, For):
            for inner in bodies(stmt):
                yield from _directly(inner)
