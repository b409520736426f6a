"""What was measured of modules and definitions comes to: a line for each, a table, totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.table import Table

from wsched.bench.gemm.results import broken_systems
from wsched.bench.method.statistic import paired_ratios, ratios_text
from wsched.bench.models.measure import COMPILE, EAGER, NVFUSER, OWN, THUNDER, THUNDER_NVFUSER

__all__ = ["KINDS", "LIMIT", "SCHEMA", "Line", "brief", "line_of", "reasons", "table", "totals"]

SCHEMA = "wsched.bench.models/1"

LIMIT = 0.99
"""A ratio to what runs without wsched below it is counted."""

KINDS = {"us": "call to call", "host_us": "host", "graph_us": "graph"}
"""What is measured of a way."""

WITHOUT = (THUNDER, THUNDER_NVFUSER, NVFUSER)
"""What runs without wsched: the fastest of these is what it is compared with."""

_REASONS = 12


@dataclass(frozen=True, slots=True)
class Line:
    """A module or definition.

    Args:
        name: with its tokens.
        us: kind -> way -> median of the rounds.
        without: kind -> time of the fastest way without wsched over wsched's, median of rounds.
        compiled: the same over torch.compile.
        flops: of the matmuls of a call.
        own: of those in kernels of wsched's.
        lost: why the others are not, with their operations.
        broken: ways that failed or were wrong, with the reason.
    """

    name: str
    us: dict[str, dict[str, float]]
    without: dict[str, float] = field(default_factory=dict)
    compiled: dict[str, float] = field(default_factory=dict)
    flops: int = 0
    own: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    @property
    def share(self) -> float | None:
        """The part of the operations in kernels of wsched's; None without matmuls."""
        return self.own / self.flops if self.flops else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name, "us": self.us, "without": self.without, "compiled": self.compiled,
            "flops": self.flops, "own": self.own, "lost": self.lost, "broken": self.broken,
        }  # fmt: skip


def line_of(name: str, result: Mapping[str, Any]) -> Line:
    """The line of a result of :func:`~wsched.bench.models.measure.prepare_case`."""
    systems, told = result["systems"], result.get("told") or {}
    right = {n: r for n, r in systems.items() if r["status"] == "ok"}
    times = {kind: {n: r[kind] for n, r in right.items() if kind in r} for kind in KINDS}
    without, compiled = dict[str, float](), dict[str, float]()
    for kind, found in times.items():
        if OWN not in found:
            continue
        others = {n: median(us) for n, us in found.items() if n in WITHOUT}
        if others:
            best = min(others, key=others.__getitem__)
            without[kind] = median(paired_ratios(found[best], found[OWN]))
        if COMPILE in found:
            compiled[kind] = median(paired_ratios(found[COMPILE], found[OWN]))
    return Line(
        name,
        {kind: {n: median(us) for n, us in found.items()} for kind, found in times.items()},
        without,
        compiled,
        told.get("flops", 0),
        told.get("own", 0),
        dict(told.get("reasons", {})),
        broken_systems(systems),
    )


def table(lines: Sequence[Line], title: str) -> Table:
    """The lines for a terminal: microseconds from call to call, in brackets of a replayed graph."""
    ways = (EAGER, COMPILE, THUNDER, THUNDER_NVFUSER, NVFUSER, OWN)
    shown = [w for w in ways if any(w in line.us["us"] for line in lines)]
    made = Table("", "in wsched", *shown, "without / wsched", "host", title=title)
    for column in made.columns[1:]:
        column.justify = "right"
    for line in lines:
        share = "–" if line.share is None else f"{line.share:.1%}"
        cells = [_cell(line, way) for way in shown]
        ratio = _ratios(line.without)
        host = line.us["host_us"].get(OWN)
        made.add_row(line.name, share, *cells, ratio or "–", "–" if host is None else f"{host:.0f}")
    return made


def brief(line: Line) -> str:
    """A line of text: times of each way, and what they are over wsched's."""
    cells = ", ".join(f"{way} {_cell(line, way)}" for way in (*line.us["us"], *line.broken))
    without, compiled = _ratios(line.without) or "–", _ratios(line.compiled) or "–"
    return f"{line.name}: {cells}; without / wsched {without}, torch.compile / wsched {compiled}"


def _ratios(found: Mapping[str, float]) -> str:
    """From call to call, and in brackets of a replayed graph."""
    told = {"us": "{:.3f}", "graph_us": "({:.3f})"}
    return " ".join(text.format(found[kind]) for kind, text in told.items() if kind in found)


def _cell(line: Line, way: str) -> str:
    if way in line.broken:
        return "failed"
    us, graph = (line.us[kind].get(way) for kind in ("us", "graph_us"))
    if us is None:
        return "–"
    return f"{us:.0f}" if graph is None else f"{us:.0f} ({graph:.0f})"


def totals(lines: Sequence[Line]) -> list[str]:
    """What all lines come to."""
    told = []
    flops, own = sum(line.flops for line in lines), sum(line.own for line in lines)
    if flops:
        shares = [line.share for line in lines if line.share is not None]
        told.append(
            f"{own / flops:.1%} of the operations of matmuls in wsched's kernels, "
            f"{sum(shares) / len(shares):.1%} on average"
        )
    for what, found in (
        ("without wsched", [line.without for line in lines]),
        ("torch.compile", [line.compiled for line in lines]),
    ):
        for kind, title in KINDS.items():
            ratios = [r[kind] for r in found if kind in r]
            if ratios:
                told.append(
                    f"{what} over wsched, {title}, {len(ratios)} of {len(lines)}: "
                    f"{ratios_text(ratios, LIMIT)}"
                )
    return told or ["nothing was measured"]


def reasons(lines: Sequence[Line]) -> list[str]:
    """Why operations are in no kernel of wsched's, the largest parts first."""
    lost = Counter[str]()
    for line in lines:
        lost.update(line.lost)
    whole = sum(line.flops for line in lines) or 1
    return [f"{n / whole:6.1%} not: {why}" for why, n in lost.most_common(_REASONS)]
