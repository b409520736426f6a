"""A recorded run: as a table, for Perfetto and as a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lowering.ground.files import save_file
from wsched.trace.plot import plot
from wsched.trace.spans import COLUMNS, Span, epilogue_overlap, shares, tracks

__all__ = ["MICROSECONDS", "Trace", "joined"]

MICROSECONDS = {"ns": 1e-3, "cycles": 1.0, "steps": 1.0}
"""A unit of time in those of a Chrome trace, which are microseconds; other units stand for them."""


_AND = " and "
"""Between the names of several kernels."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One run of a traced kernel.

    Args:
        kernel: its name; of several that ran one behind the other their :attr:`kernels`.
        unit: of all times: ``ns``, ``cycles`` where the device's timer did not advance (CTAs are
            then aligned at their beginnings), or ``steps`` of the machine.
        spans: ordered by CTA, warp and begin; of spans that begin together the longer one is first.
        dropped: stamps for which there was no room.
        about: of which CTAs it is and where its times are from, where these are no device's or
            machine's own; else empty.
        ghz: cycles of an SM in a nanosecond; 0 where that is not known.
    """

    kernel: str
    unit: str
    spans: tuple[Span, ...]
    dropped: int = 0
    about: str = ""
    ghz: float = 0.0

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels that ran."""
        return tuple(self.kernel.split(_AND))

    def tracks(self) -> dict[tuple[int, str, int], tuple[Span, ...]]:
        """By CTA, role and group: spans of the warpgroup's first warp that has any, but ``cta``."""
        return tracks(self.spans)

    def shares(self) -> dict[str, dict[str, float]]:
        """By ``role[group]`` and span's name: its part of the CTAs' time, without inner spans."""
        return shares(self.spans)

    def epilogue_overlap(self) -> float | None:
        """Part of the epilogues' time under a main loop of another group of the same CTA.

        None if there is no epilogue, or only one group.
        """
        return epilogue_overlap(self.spans)

    def table(self) -> str:
        """For people: each role's shares of the time in percent, and the overlap."""
        by_role, ctas = self.shares(), {s.cta for s in self.spans}
        end = max((s.end for s in self.spans), default=0.0)
        lines = [f"{self.kernel}: {len(ctas)} CTAs, {end:.0f} {self.unit}"]
        names = [n for n in COLUMNS if any(n in row for row in by_role.values())]
        rows = [["% of the time", *names, "other"]]
        for label, row in by_role.items():
            cells = [f"{100 * row[n]:.1f}" if n in row else "" for n in names]
            rows.append([label, *cells, f"{100 * (1 - sum(row.values())):.1f}"])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for first, *cells in rows:
            padded = (c.rjust(w) for c, w in zip(cells, widths[1:], strict=True))
            lines.append("  ".join([first.ljust(widths[0]), *padded]).rstrip())
        overlap = self.epilogue_overlap()
        if overlap is not None:
            lines.append(f"{100 * overlap:.1f} % of the epilogue under another group's main loop")
        if self.about:
            lines.append(f"  {self.about}")
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
        scale = MICROSECONDS[self.unit]
        for s in self.spans:
            event = {"name": s.name, "cat": s.role, "ph": "X", "pid": s.cta, "tid": s.warp}
            event |= {"ts": s.begin * scale, "dur": (s.end - s.begin) * scale}
            events.append(event | {"args": {} if s.tile is None else {"tile": s.tile}})
        about = {"kernel": self.kernel, "unit": self.unit, "dropped": self.dropped}
        about |= {"about": self.about} if self.about else {}
        about |= {"ghz": self.ghz} if self.ghz else {}
        return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}

    def save(self, path: Path | str) -> None:
        """Write :meth:`perfetto` as JSON."""
        save_file(Path(path), json.dumps(self.perfetto()).encode())

    def plot(self, path: Path | str, ctas: int = 2) -> None:
        """Draw the time line of the first ``ctas`` CTAs as a PNG.

        Raises:
            UnsupportedError: matplotlib is not installed.
        """
        title = f"{self.kernel}, {self.about}" if self.about else self.kernel
        plot(title, self.unit, self.spans, Path(path), ctas)


def joined(traces: Sequence[Trace]) -> Trace:
    """The time line of kernels that ran one behind the other: each begins where the one in front
    ends, and its CTAs are numbered behind those of that. Times of several launches are not told by
    one clock, so what lies between two of them is left out.
    """
    if len(traces) == 1:
        return traces[0]
    spans, firsts, ctas, end = list[Span](), list[str](), 0, 0.0
    for trace in traces:
        firsts.append(str(ctas))
        spans += (
            replace(s, cta=s.cta + ctas, begin=s.begin + end, end=s.end + end) for s in trace.spans
        )
        ctas = max((s.cta + 1 for s in spans), default=0)
        end = max((s.end for s in spans), default=0.0)
    some = next((t for t in traces if t.spans), traces[0])
    return replace(
        some,
        kernel=_AND.join(t.kernel for t in traces),
        spans=tuple(spans),
        dropped=sum(t.dropped for t in traces),
        about=f"one kernel behind the other, the CTAs of each from {', '.join(firsts)} on",
    )


def _metadata(what: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args}
