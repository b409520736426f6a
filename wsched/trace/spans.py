"""A recorded run as spans: what each warp did from when to when; as a table and for Perfetto."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["COLUMNS", "Span", "Trace"]

COLUMNS = ("load", "turn", "main_loop", "epilogue", "store_wait", "drain")
"""Names of the spans of a warp, in the order of a tile."""

_MICROSECONDS = {"ns": 1e-3, "cycles": 1.0, "steps": 1.0}
"""A unit of time in those of a Chrome trace, which are microseconds; other units stand for them."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that a warp did.

    Args:
        name: ``cta`` (from its first to its last instruction), ``load``, ``turn`` (waiting for the
            tensor core), ``main_loop``, ``epilogue``, ``store_wait`` or ``drain``: see the pass
            ``trace``.
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


@dataclass(frozen=True, slots=True)
class Trace:
    """One run of a traced kernel.

    Args:
        kernel: its name.
        unit: of all times: ``ns``, ``cycles`` where the device's timer did not advance (CTAs are
            then aligned at their beginnings), or ``steps`` of the machine.
        spans: ordered by CTA, warp and begin; of spans that begin together the longer one is first.
        dropped: stamps for which there was no room.
    """

    kernel: str
    unit: str
    spans: tuple[Span, ...]
    dropped: int = 0

    def tracks(self) -> dict[tuple[int, str, int], tuple[Span, ...]]:
        """By CTA, role and group: spans of the warpgroup's first warp that has any, but ``cta``."""
        found: dict[tuple[int, str, int], list[Span]] = {}
        for span in self.spans:
            if span.name == "cta":
                continue
            track = found.setdefault((span.cta, span.role, span.group), [])
            if not track or track[0].warp == span.warp:
                track.append(span)
        return {key: tuple(track) for key, track in sorted(found.items())}

    def shares(self) -> dict[str, dict[str, float]]:
        """By ``role[group]`` and span's name: its part of the CTAs' time, without inner spans."""
        total = sum(s.end - s.begin for s in self.spans if s.name == "cta")
        times: dict[str, Counter[str]] = {}
        for (_, role, group), track in self.tracks().items():
            row = times.setdefault(f"{role}[{group}]", Counter())
            for name, time in _own_times(track):
                row[name] += time  # type: ignore[assignment]
        return {
            label: {name: time / total if total else 0.0 for name, time in row.items()}
            for label, row in sorted(times.items())
        }

    def epilogue_overlap(self) -> float | None:
        """Part of the epilogues' time under a main loop of another group of the same CTA.

        None if there is no epilogue, or only one group.
        """
        tracks, under, total = self.tracks(), 0.0, 0.0
        if len({(role, group) for _, role, group in tracks if role == "compute"}) < 2:
            return None
        for (cta, role, group), track in tracks.items():
            others = [
                s
                for (there, _, other), spans in tracks.items()
                if there == cta and other != group
                for s in spans
                if s.name == "main_loop"
            ]
            for span in (s for s in track if s.name == "epilogue" and role == "compute"):
                total += span.end - span.begin
                under += _covered(span, others)
        return under / total if total else None

    def table(self) -> str:
        """For people: each role's shares of the time in percent, and the overlap."""
        shares, ctas = self.shares(), {s.cta for s in self.spans}
        end = max((s.end for s in self.spans), default=0.0)
        lines = [f"{self.kernel}: {len(ctas)} CTAs, {end:.0f} {self.unit}"]
        names = [n for n in COLUMNS if any(n in row for row in shares.values())]
        rows = [["% of the time", *names, "other"]]
        for label, row in shares.items():
            cells = [f"{100 * row[n]:.1f}" if n in row else "" for n in names]
            rows.append([label, *cells, f"{100 * (1 - sum(row.values())):.1f}"])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for first, *cells in rows:
            padded = (c.rjust(w) for c, w in zip(cells, widths[1:], strict=True))
            lines.append("  ".join([first.ljust(widths[0]), *padded]).rstrip())
        overlap = self.epilogue_overlap()
        if overlap is not None:
            lines.append(f"{100 * overlap:.1f} % of the epilogue under another group's main loop")
        if self.dropped:
            lines.append(f"{self.dropped} stamps were dropped: the time line ends early")
        return "\n".join(lines) + "\n"

    def perfetto(self) -> dict[str, Any]:
        """A Chrome trace, which ui.perfetto.dev opens: a process for each CTA, a thread a warp."""
        events: list[dict[str, Any]] = []
        for cta, sm in sorted({(s.cta, s.sm) for s in self.spans}):
            events.append(_metadata("process_name", cta, 0, name=f"CTA {cta} on SM {sm}"))
        for cta, warp, role, group in sorted(
            {(s.cta, s.warp, s.role, s.group) for s in self.spans}
        ):
            name = f"{role}[{group}] warp {warp}"
            events.append(_metadata("thread_name", cta, warp, name=name))
            events.append(_metadata("thread_sort_index", cta, warp, sort_index=warp))
        scale = _MICROSECONDS[self.unit]
        for s in self.spans:
            event = {"name": s.name, "cat": s.role, "ph": "X", "pid": s.cta, "tid": s.warp}
            event |= {"ts": s.begin * scale, "dur": (s.end - s.begin) * scale}
            events.append(event | {"args": {} if s.tile is None else {"tile": s.tile}})
        about = {"kernel": self.kernel, "unit": self.unit, "dropped": self.dropped}
        return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}

    def save(self, path: Path | str) -> None:
        """Write :meth:`perfetto` as JSON."""
        Path(path).write_text(json.dumps(self.perfetto()), encoding="utf-8")

    def plot(self, path: Path | str, ctas: int = 2) -> None:
        """Draw the time line of the first ``ctas`` CTAs as a PNG.

        Raises:
            UnsupportedError: matplotlib is not installed.
        """
        from wsched.trace.plot import plot

        plot(self, Path(path), ctas)


def _metadata(what: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args}


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
