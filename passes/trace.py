"""Stamp when each role waits, computes and stores; nothing unless the options ask for a trace.

Requires: loops that say what they are to which tile (``For.event``).
Guarantees: no loop says so any more. In its trace buffer each warp notes begin and end of, with the
number of the tile among those of its CTA,

- ``load``, ``transform``: the loop that fills the steps of a tile, from global memory or with what
  is computed,
- ``turn``: the wait for another group, at a barrier where that only arrives,
- ``main_loop``: the wgmmas of a tile, up to the wait for the last one; of products into tensor
  memory until the last one is issued,
- ``epilogue``: everything behind it, up to the last store, or a loop of warps that have nothing
  else to do, in which
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
    Break,
    BulkWait,
    Elect,
    Event,
    For,
    If,
    MBarrierArrive,
    OnWarp,
    Stamp,
    Stmt,
    WgmmaWait,
)
from lowering.kernel.traits import Memory
from lowering.kernel.visit import Names, map_bodies, map_roles, walk
from passes.options import LoweringOptions

__all__ = ["EVENTS", "trace"]

EVENTS = ("cta", "load", "transform", "turn", "main_loop", "epilogue", "store_wait", "drain")
"""What a time line has: what loops are to a tile, and waits."""

_READ_BY_OTHERS = Memory.GLOBAL | Memory.SHARED | Memory.SHARED_ASYNC


def trace(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Stamps around what a time line should show.

    before::

        for t in 0 .. tiles {
          bar.sync order[wg]
          for k in 0 .. n event main_loop t { mbarrier.wait full[stage(t * n + k, 4)], ... }
          (epilogue)
        }

    after::

        trace spans[512](cta, load, transform, turn, main_loop, epilogue, store_wait, drain)
        for t in 0 .. tiles {
          stamp spans, turn, begin, t
          bar.sync order[wg]
          stamp spans, turn, end, t
          stamp spans, main_loop, begin, t
          for k in 0 .. n { mbarrier.wait full[stage(t * n + k, 4)], ... }
          stamp spans, main_loop, end, t
          stamp spans, epilogue, begin, t
          (epilogue)
          stamp spans, epilogue, end, t
        }
    """
    body = kernel.body
    if options.trace_slots:
        buffer = TraceBuffer(Names(kernel).new("spans"), options.trace_slots, EVENTS)
        stamps, kernel = _Stamps(buffer.name, _turns(kernel)), kernel.declare(buffer)
        stamped = map_roles(kernel, lambda r: replace(r, body=stamps.role(r.body)))
        begin, end = (stamps.both_clocks(phase) for phase in ("begin", "end"))
        body = (begin, *stamped.body, end)
    return replace(kernel, body=_untold(body))


def _untold(body: Body) -> Body:
    """``body`` whose loops do not say what they are to a tile."""

    def untold(stmt: Stmt) -> Stmt:
        stmt = map_bodies(stmt, _untold)
        if isinstance(stmt, For) and stmt.event is not None:
            return replace(stmt, event=None)
        return stmt

    return tuple(map(untold, body))


def _turns(kernel: Kernel) -> frozenset[str]:
    """The arrays of barriers that hand turns over: one group arrives, the other waits.

    At all others, those of stores for instance, the same threads meet.
    """
    return frozenset(s.bar.array for s in walk(kernel.body) if isinstance(s, BarArrive))


@dataclass(frozen=True, slots=True)
class _Span:
    """Statements ``first .. last`` of a list are one event, of a tile that all of them know."""

    event: str
    first: int
    last: int
    tile: Expr


@dataclass(frozen=True, slots=True)
class _Stamps:
    """Adds stamps to statement lists.

    Args:
        name: the trace buffer.
        turns: arrays of barriers that hand turns over.
    """

    name: str
    turns: frozenset[str]

    def both_clocks(self, phase: str) -> Stmt:
        """The CTA by the SM's clock, then by the device's, from its first warp."""
        here = Stamp(self.name, "cta", phase, ZERO)
        everywhere = replace(here, value=Special("smid"), clock="globaltimer")
        return OnWarp(0, (here, everywhere))

    def around(self, event: str, tile: Expr, stmts: Body) -> Body:
        """Statements that are an event."""
        begin, end = (Stamp(self.name, event, phase, tile) for phase in ("begin", "end"))
        return (begin, *stmts, end)

    def role(self, body: Body) -> Body:
        """What a role does for its tiles, and behind that the wait for its last stores."""
        stored = 1 + max((i for i, s in enumerate(body) if _writes(s)), default=-1)
        return (*self.body(body[:stored], None), *self.body(body[stored:], None))

    def body(self, body: Body, tile: Expr | None) -> Body:
        """``body`` with stamps.

        Args:
            body: of a role, or within it.
            tile: the tile that it belongs to, None where there is none.
        """
        spans = list(_spans(body))
        tile = spans[0].tile if spans else tile
        out: list[Stmt] = []
        for i, stmt in enumerate(body):
            out += (Stamp(self.name, s.event, "begin", s.tile) for s in spans if s.first == i)
            out += self.stmt(stmt, tile)
            out += (Stamp(self.name, s.event, "end", s.tile) for s in spans if s.last == i)
        return tuple(out)

    def stmt(self, stmt: Stmt, tile: Expr | None) -> Body:
        """A statement with stamps; nothing is stamped while a ring is filled from global memory, or
        while wgmmas may be in flight.
        """
        if isinstance(stmt, For) and stmt.event is not None:
            if not stmt.of_one_tile:
                return (replace(stmt, body=self.trip(stmt.event, stmt.body)),)
            if stmt.event.name in ("load", "main_loop"):
                return (stmt,)
        if isinstance(stmt, BarSync) and stmt.bar.array in self.turns and tile is not None:
            return self.around("turn", tile, (stmt,))
        if isinstance(stmt, Elect) and isinstance(stmt.body[0], BulkWait):
            waiting = ("drain", ZERO) if tile is None else ("store_wait", tile)
            return self.around(*waiting, (stmt,))
        return (map_bodies(stmt, partial(self.body, tile=tile)),)

    def trip(self, event: Event, body: Body) -> Body:
        """The body of a loop whose trips are an event each, if they do not leave the loop."""
        begin = 1 + max((i for i, s in enumerate(body) if isinstance(s, Break)), default=-1)
        rest = self.body(body[begin:], event.tile)
        return (*body[:begin], *self.around(event.name, event.tile, rest))


def _spans(body: Body) -> Iterator[_Span]:
    """Events whose statements stand in this list themselves, one behind the other."""
    for i, stmt in enumerate(body):
        if isinstance(stmt, For) and stmt.event is not None and stmt.of_one_tile:
            name, tile = stmt.event.name, stmt.event.tile
            if name == "main_loop":
                yield from _main_loop(body, i, tile)
                return
            yield _Span(name, i, i, tile)


def _main_loop(body: Body, first: int, tile: Expr) -> Iterator[_Span]:
    """The events of a tile whose main loop is statement ``first``."""
    last = first
    while last + 1 < len(body) and isinstance(body[last + 1], WgmmaWait):
        last += 1
    yield _Span("main_loop", first, last, tile)
    first = last + 1
    while first < len(body) and _signals(body[first]):
        first += 1  # the other group may begin; a stamp before that would make it wait
    written = [i for i, s in enumerate(body) if i >= first and _writes(s)]
    if written:
        yield _Span("epilogue", first, written[-1], tile)


def _signals(stmt: Stmt) -> bool:
    """Whether a statement only arrives at barriers."""
    return all(isinstance(s, (If, OnWarp, Elect, MBarrierArrive, BarArrive)) for s in walk((stmt,)))


def _writes(stmt: Stmt) -> bool:
    """Whether a statement writes what others read."""
    return any(s.TRAITS.writes & _READ_BY_OTHERS for s in walk((stmt,)))
