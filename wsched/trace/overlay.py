"""A predicted time line beside a measured one of the same kernel: phase by phase, tile by tile.

What a tile takes does not depend on when it began, so each is compared with the same one of its
CTA, wherever the two lines have drifted to; of many CTAs the median stands for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd
from pathlib import Path
from statistics import median
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.trace.plot import draw_rows
from wsched.trace.spans import COLUMNS, Span
from wsched.trace.timeline import Trace

__all__ = ["WRONG", "Overlay", "Phase", "overlay"]

WRONG = 0.15
"""Part of what was measured by which a prediction may differ; by more the model is wrong."""

SHORT_NS = 100.0
"""What is shorter both ways is not judged: that is as long as a few stamps, or as the step of the
clock that measured, where it has one that is longer."""

Key = tuple[str, str, "int | None"]


@dataclass(frozen=True, slots=True)
class Phase:
    """What the warps of a role do in each tile, or once.

    Args:
        role: of the warps.
        name: of the span.
        tiles: number of the tile among its CTA's (None of what is done once), predicted and
            measured nanoseconds, the medians over CTAs and groups.
        step: nanoseconds that the clock which measured may be off by: a step for each span of a
            tile; 0 where it is exact.
        only: the one time line that has it, ``predicted`` or ``measured``; empty where both have.
    """

    role: str
    name: str
    tiles: tuple[tuple[int | None, float, float], ...]
    step: float = 0.0
    only: str = ""

    @property
    def predicted(self) -> float:
        """Nanoseconds of a tile, in the mean."""
        return sum(p for _, p, _ in self.tiles) / len(self.tiles)

    @property
    def measured(self) -> float:
        """The same, measured."""
        return sum(m for _, _, m in self.tiles) / len(self.tiles)

    @property
    def difference(self) -> float | None:
        """By which part of what was measured the prediction is longer; None where both are short,
        or nearer than the clock's step, or one has it not.
        """
        p, m = self.predicted, self.measured
        near = self.step > 0 and abs(p - m) <= self.step
        untold = self.only or near or not m or max(p, m) < SHORT_NS
        return None if untold else p / m - 1

    @property
    def wrong(self) -> bool:
        """Whether the model is wrong here: also about what is done at all."""
        return bool(self.only) or (self.difference is not None and abs(self.difference) > WRONG)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        tiles = [{"tile": t, "predicted_ns": p, "measured_ns": m} for t, p, m in self.tiles]
        return {
            "role": self.role, "phase": self.name, "predicted_ns": self.predicted,
            "measured_ns": self.measured, "difference": self.difference, "wrong": self.wrong,
            "only": self.only, "tiles": tiles,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Overlay:
    """Two time lines of one kernel; :func:`overlay` makes it."""

    predicted: Trace
    measured: Trace
    phases: tuple[Phase, ...]

    def table(self) -> str:
        """For people: a line for each phase, and where the model is wrong."""
        ctas = len({s.cta for s in self.measured.spans})
        lines = [f"{self.measured.kernel}", f"  {self.predicted.about}"]
        step = _step(self.measured)
        coarse = f", by a clock with steps of {step:.0f} ns" if step > 1 else ""
        at = f" at {self.measured.ghz:.4g} GHz" if self.measured.ghz else ""
        lines.append(f"  measured: the medians of {ctas} CTAs{at}{coarse}")
        rows = [["ns of a tile", "tiles", "predicted", "measured", "difference"]]
        for p in self.phases:
            differs = "not told" if p.difference is None else f"{100 * p.difference:+.0f} %"
            if p.only:
                differs = f"only {p.only}"
            times = [f"{x:.0f}" for x in (p.predicted, p.measured)]
            rows.append([f"{p.role} {p.name}", str(len(p.tiles)), *times, differs])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row, phase in zip(rows, (None, *self.phases), strict=True):
            first, *cells = row
            padded = (c.rjust(w) for c, w in zip(cells, widths[1:], strict=True))
            wrong = "  the model is wrong here" if phase is not None and phase.wrong else ""
            lines.append("  ".join([first.ljust(widths[0]), *padded]).rstrip() + wrong)
        return "\n".join(lines) + "\n"

    def perfetto(self) -> dict[str, Any]:
        """A Chrome trace of both: CTAs that were predicted behind those that were measured, each of
        their tiles at the time of the measured one, and the phases as data.
        """
        whole = self.measured.perfetto()
        behind = 1 + max((s.cta for s in self.measured.spans), default=0)
        for event in replace(self.predicted, spans=tuple(self._aligned())).perfetto()[
            "traceEvents"
        ]:
            if event["name"] == "process_name":
                event["args"]["name"] = f"predicted {event['args']['name']}"
            whole["traceEvents"].append(event | {"pid": behind + event["pid"]})
        whole["otherData"] |= {"phases": [p.to_dict() for p in self.phases]}
        return whole

    def plot(self, path: Path | str) -> None:
        """Draw the first CTA's warpgroups as a PNG, measured above and predicted below, each tile
        of what is predicted where the measured one begins.

        Raises:
            UnsupportedError: matplotlib is not installed.
        """
        rows: dict[str, tuple[Span, ...]] = {}
        aligned = replace(self.predicted, spans=tuple(self._aligned())).tracks()
        tracks = self.measured.tracks()
        for (cta, role, group), track in tracks.items():
            if cta == min(c for c, _, _ in tracks):
                rows[f"{role}[{group}] measured"] = track
                rows[f"{role}[{group}] predicted"] = aligned.get((0, role, group), ())
        draw_rows(rows, f"{self.measured.kernel}, CTA 0", "ns", Path(path))

    def _aligned(self) -> Iterator[Span]:
        """What is predicted of the first CTA; tiles begin when the measured ones do."""
        begins = _begins(self.measured)
        own = _begins(self.predicted)
        for s in self.predicted.spans:
            if s.cta == min(x.cta for x in self.predicted.spans):
                key = s.role, s.group, s.tile
                shift = begins.get(key, own.get(key, 0.0)) - own.get(key, 0.0)
                yield replace(s, cta=0, begin=s.begin + shift, end=s.end + shift)


def overlay(predicted: Trace, measured: Trace) -> Overlay:
    """What was predicted of a kernel beside what was measured.

    Raises:
        UnsupportedError: they are of different kernels, or one is not in nanoseconds.
    """
    if predicted.kernel != measured.kernel:
        what = f"the time line of {measured.kernel} beside that of {predicted.kernel}"
        raise UnsupportedError(
            what, "two of one kernel", "Give the same file, shape and parameters"
        )
    for trace in (predicted, measured):
        if trace.unit != "ns":
            raise UnsupportedError(
                f"an overlay of times in {trace.unit}", "ns, as a GPU tells them"
            )
    own, found = _durations(predicted), _durations(measured)
    both = {key[:2] for key in own.keys() & found.keys()}
    phases: dict[tuple[str, str], list[tuple[int | None, float, float]]] = {}
    for role, name, tile in sorted(own.keys() | found.keys(), key=_order):
        sides = own.get((role, name, tile), ()), found.get((role, name, tile), ())
        if all(sides) or (role, name) not in both:
            p, m = (median(times) if times else 0.0 for times in sides)
            phases.setdefault((role, name), []).append((tile, p, m))
    step, times = _step(measured), _times(measured)
    only = {key: _only(key, own) for key in phases.keys() - both}
    told = tuple(
        Phase(*key, tuple(tiles), step * times[key], only.get(key, ""))
        for key, tiles in phases.items()
    )
    return Overlay(predicted, measured, told)


def _only(phase: tuple[str, str], predicted: Iterable[Key]) -> str:
    """Which of two time lines has a phase that one of them has."""
    return "predicted" if any(key[:2] == phase for key in predicted) else "measured"


def _times(trace: Trace) -> Counter[tuple[str, str]]:
    """How often warps of a role do something in a tile, at most."""
    found = Counter[tuple[str, str]]()
    for (_, role, _), track in trace.tracks().items():
        for (name, _), n in Counter((s.name, s.tile) for s in track).items():
            found |= Counter({(role, name): n})
    return found


def _step(trace: Trace) -> float:
    """What all durations are multiples of; 0 where they are no whole numbers."""
    times = [s.end - s.begin for s in trace.spans]
    whole = [round(t) for t in times]
    exact = any(abs(t - n) > 1e-3 for t, n in zip(times, whole, strict=True))
    return 0.0 if exact else float(gcd(*whole))


def _order(key: Key) -> tuple[str, int, int]:
    role, name, tile = key
    at = COLUMNS.index(name) if name in COLUMNS else len(COLUMNS)
    return role, at, -1 if tile is None else tile


def _durations(trace: Trace) -> Mapping[Key, list[float]]:
    """Of each role, phase and tile what it takes in each CTA and group; of whole CTAs those with
    the most tiles.
    """
    found: dict[Key, list[float]] = {}
    tiles: Counter[int] = Counter()
    for (cta, role, _), track in trace.tracks().items():
        times: Counter[tuple[str, int | None]] = Counter()
        for s in track:
            times[s.name, s.tile] += s.end - s.begin  # type: ignore[assignment]
            tiles[cta] = max(tiles[cta], s.tile or 0)
        for (name, tile), time in times.items():
            found.setdefault((role, name, tile), []).append(time)
    most = max(tiles.values(), default=None)
    for s in trace.spans:
        if s.name == "cta" and tiles[s.cta] == most:
            found.setdefault(("all", s.name, None), []).append(s.end - s.begin)
    return found


def _begins(trace: Trace) -> dict[tuple[str, int, int | None], float]:
    """When each tile of each warpgroup of the first CTA begins."""
    first = min((s.cta for s in trace.spans), default=None)
    found: dict[tuple[str, int, int | None], float] = {}
    for (cta, role, group), track in trace.tracks().items():
        if cta == first:
            for s in track:
                key = role, group, s.tile
                found[key] = min(found.get(key, s.begin), s.begin)
    return found
