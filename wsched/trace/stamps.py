"""What the stamps of a traced kernel recorded, as a time line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import OnWarp, Roles, Tcgen05Mma
from lowering.kernel.visit import walk
from wsched.trace.spans import Span
from wsched.trace.timeline import Trace

__all__ = ["SLOTS", "decode", "warp_places"]

SLOTS = {True: 512, False: 64}
"""Stamps of a warp, by whether its CTA has many tiles; 16 bytes each, some 14 for a tile."""


_MULTIPLIES = "compute"
"""The part that has the products (``wsched.schedule.parts``)."""


@dataclass(slots=True)
class _Cta:
    """What a CTA recorded: raw spans by the SM's clock, and moments by both clocks."""

    sm: int = 0
    spans: list[Span] = field(default_factory=list)
    cycles: dict[int, int] = field(default_factory=dict)
    nanoseconds: dict[int, int] = field(default_factory=dict)

    @property
    def both(self) -> bool:
        """Whether begin and end are known by both clocks."""
        return len(self.cycles) == len(self.nanoseconds) == 2


def decode(kernel: Kernel, stamps: Any, *, on_machine: bool) -> Trace:
    """The time line in a trace buffer.

    A clock of an SM is placed among the others by the moments that its CTA has by both clocks. All
    SMs have one frequency, so that it is taken from all CTAs together, and the timer's resolution
    counts little.

    Args:
        kernel: a traced kernel.
        stamps: the words of its trace buffer, an int64 array ``[CTAs, warps, 1 + slots, 2]``.
        on_machine: whether clocks are steps of the machine, the same for all warps.
    """
    slots = kernel.traces[-1].slots
    ctas = [_read(kernel, index, words) for index, words in enumerate(stamps)]
    _from_the_first(ctas)
    made = stamps[:, :, 0, 0]
    dropped = int(np.maximum(made - slots, 0).sum())
    ticks = sum(c.cycles[1] - c.cycles[0] for c in ctas if c.both)
    time = sum(c.nanoseconds[1] - c.nanoseconds[0] for c in ctas if c.both)
    unit = "steps" if on_machine else "ns" if time > 0 else "cycles"
    rate = ticks / time if unit == "ns" else 1.0
    spans: list[Span] = []
    for cta in ctas:
        start, zero = _origin(cta, rate, unit)
        for s in cta.spans:
            begin, end = ((t - start) / rate + zero for t in (s.begin, s.end))
            spans.append(replace(s, sm=cta.sm, begin=begin, end=end))
    first = min((s.begin for s in spans), default=0.0)
    moved = (replace(s, begin=s.begin - first, end=s.end - first) for s in spans)
    ordered = tuple(sorted(moved, key=lambda s: (s.cta, s.warp, s.begin, -s.end)))
    return Trace(kernel.name, unit, ordered, dropped, ghz=rate if unit == "ns" else 0.0)


def _from_the_first(ctas: list[_Cta]) -> None:
    """Let the device's timer begin with the first moment that it has told: it counts from no day
    of the kernel's, and of 1.7e18 ns a float has every 256th.
    """
    first = min((ns for c in ctas for ns in c.nanoseconds.values()), default=0)
    for cta in ctas:
        cta.nanoseconds = {phase: ns - first for phase, ns in cta.nanoseconds.items()}


def _origin(cta: _Cta, rate: float, unit: str) -> tuple[int, float]:
    """A moment of a CTA by its SM's clock, and when that was by the time line's."""
    if unit == "steps" or not cta.cycles:
        return 0, 0.0
    start = cta.cycles[0]
    if unit == "cycles":
        return start, 0.0
    # The mean of what begin and end say: each is off by up to the timer's resolution.
    moments = [cta.nanoseconds[p] - (cta.cycles[p] - start) / rate for p in cta.nanoseconds]
    return start, sum(moments) / len(moments)


def _read(kernel: Kernel, index: int, words: Any) -> _Cta:
    """The stamps of one CTA, ``[warps, 1 + slots, 2]``; a span without an end is left out."""
    trace, cta = kernel.traces[-1], _Cta()
    places = dict(warp_places(kernel))
    for warp, rows in enumerate(words):
        open_: list[tuple[str, int]] = []
        role, group = places[warp]
        for clock, word in rows[1 : 1 + min(int(rows[0, 0]), trace.slots)].tolist():
            code, value = word & 0xFFFFFFFF, word >> 32
            name, by_device, ends = trace.events[code >> 2], bool(code & 2), code & 1
            if by_device:
                cta.sm, cta.nanoseconds[ends] = value, clock
                continue
            if name == "cta":
                cta.cycles[ends] = clock
            if not ends:
                open_.append((name, clock))
                continue
            _, begin = open_.pop()
            tile = None if name in ("cta", "drain") else value
            cta.spans.append(Span(name, index, 0, role, group, warp, tile, begin, clock))
    cta.spans = list(_turns_to_the_end(cta.spans))
    return cta


def _turns_to_the_end(spans: Sequence[Span]) -> Iterator[Span]:
    """A turn is over when the tile's main loop begins, the next that its warp does: ``bar.sync``
    (``BAR.SYNC.DEFER_BLOCKING``) lets a warp go on to the read of the clock behind it, and only
    what comes then waits. On an H200 no turn was longer than two stamps. What stands behind the
    turn of an epilogue is not stamped, so that one is as it was recorded.
    """
    loops = {(s.warp, s.tile): s.begin for s in spans if s.name == "main_loop"}
    for s in spans:
        behind = loops.get((s.warp, s.tile), 0)
        yield replace(s, end=behind) if s.name == "turn" and behind >= s.end else s


def warp_places(kernel: Kernel) -> Iterator[tuple[int, tuple[str, int]]]:
    """Role and group of each warp; where roles stand in roles, of the innermost. A warp that issues
    products beside others that load is a role of its own, called as its part is.
    """
    for role in (r for s in walk(kernel.body) if isinstance(s, Roles) for r in s.roles):
        issue = {
            s.index for s in walk(role.body)
            if isinstance(s, OnWarp) and any(isinstance(x, Tcgen05Mma) for x in walk(s.body))
        }  # fmt: skip
        for warp in range(role.warps):
            name = _MULTIPLIES if warp in issue else role.name
            yield role.first_warp + warp, (name, warp // 4)
