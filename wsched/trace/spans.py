"""What warps did from when to when, and what follows: tracks, shares of the time, overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["COLUMNS", "Span", "epilogue_overlap", "shares", "tracks"]

COLUMNS = ("load", "transform", "turn", "main_loop", "epilogue", "store_wait", "drain")
"""Names of the spans of a warp, in the order of a tile."""

_COMPUTING = frozenset({"transform", "turn", "main_loop", "epilogue", "drain"})
"""Spans of warps that compute; who got no tile only drains."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that a warp did.

    Args:
        name: ``cta`` (from its first to its last instruction), ``load``, ``transform``, ``turn``
            (waiting for the tensor core), ``main_loop``, ``epilogue``, ``store_wait`` or ``drain``:
            see the pass ``trace``.
        cta: ``%ctaid.x``.
        sm: where it ran, ``%smid``; on the machine the CTA's number.
        role: of the warp.
        group: index of the warpgroup within the role.
        warp: warp of the CTA.
        tile: which tile of its CTA, from 0; None for ``cta`` and ``drain``.
        begin: time since the first span began.
        end: likewise.
    """

    name: str
    cta: int
    sm: int
    role: str
    group: int
    warp: int
    tile: int | None
    begin: float
    end: float


def tracks(spans: Sequence[Span]) -> dict[tuple[int, str, int], tuple[Span, ...]]:
    """By CTA, role and group: spans of the warpgroup's first warp that has any, but ``cta``."""
    found: dict[tuple[int, str, int], list[Span]] = {}
    for span in spans:
        if span.name == "cta":
            continue
        track = found.setdefault((span.cta, span.role, span.group), [])
        if not track or track[0].warp == span.warp:
            track.append(span)
    return {key: tuple(track) for key, track in sorted(found.items())}


def shares(spans: Sequence[Span]) -> dict[str, dict[str, float]]:
    """By ``role[group]`` and span's name: its part of the CTAs' time, without inner spans.

    A CTA whose last stamps were dropped counts until the last one that was not.
    """
    begins: dict[int, float] = {}
    ends: dict[int, float] = {}
    for s in spans:
        begins[s.cta] = min(begins.get(s.cta, s.begin), s.begin)
        ends[s.cta] = max(ends.get(s.cta, s.end), s.end)
    total = sum(ends[cta] - begin for cta, begin in begins.items())
    times: dict[str, Counter[str]] = {}
    for (_, role, group), track in tracks(spans).items():
        row = times.setdefault(f"{role}[{group}]", Counter())
        for name, time in _own_times(track):
            row[name] += time  # type: ignore[assignment]
    return {
        label: {name: time / total if total else 0.0 for name, time in row.items()}
        for label, row in sorted(times.items())
    }


def epilogue_overlap(spans: Sequence[Span]) -> float | None:
    """Part of the epilogues' time under a main loop of another group of the same CTA.

    None if there is no epilogue, or only one group.
    """
    by_group, under, total = _computing(spans), 0.0, 0.0
    if len({(role, group) for _, role, group in by_group}) < 2:
        return None
    for (cta, *group), track in by_group.items():
        others = [
            s
            for (there, *other), those in by_group.items()
            if there == cta and other != group
            for s in those
            if s.name == "main_loop"
        ]
        for span in (s for s in track if s.name == "epilogue"):
            total += span.end - span.begin
            under += _covered(span, others)
    return under / total if total else None


def _computing(spans: Sequence[Span]) -> dict[tuple[int, str, int], tuple[Span, ...]]:
    """The tracks of those who compute, whatever their roles are called."""
    return {
        who: track
        for who, track in tracks(spans).items()
        if any(s.name in _COMPUTING for s in track)
    }


def _own_times(track: tuple[Span, ...]) -> Iterator[tuple[str, float]]:
    """(name, time) to add up: of each span its whole time, and minus it of the span around it."""
    around: list[Span] = []
    for span in track:
        while around and around[-1].end <= span.begin:
            around.pop()
        yield span.name, span.end - span.begin
        if around:
            yield around[-1].name, span.begin - span.end
        around.append(span)


def _covered(span: Span, others: list[Span]) -> float:
    """Time of ``span`` during which at least one of ``others`` runs."""
    covered, at = 0.0, span.begin
    for other in sorted(others, key=lambda s: s.begin):
        begin, end = max(other.begin, at), min(other.end, span.end)
        if begin < end:
            covered, at = covered + end - begin, end
    return covered
