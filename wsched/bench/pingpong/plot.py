"""Where ping-pong pays, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wsched.bench.fused.epilogue import BARE
from wsched.bench.method.statistic import Spread
from wsched.bench.pingpong.results import Row
from wsched.figures import new_figure

__all__ = ["curves", "plot"]

Curve = list[tuple[int, Spread]]
"""K and a ratio of times, by K."""


def curves(rows: Sequence[Row]) -> tuple[str, dict[str, Curve]]:
    """Return ``M=…, N=…`` and the curves over K there, by their names.

    M and N are those that were measured with most different K. A curve for each epilogue:
    ping-pong's time over the cooperative one's; and cuBLAS's over the cooperative one's, bare.
    """
    values: dict[tuple[int, int], set[int]] = {}
    for row in rows:
        values.setdefault((row.shape.m, row.shape.n), set()).add(row.shape.k)
    m, n = max(values, key=lambda size: len(values[size]))
    here = sorted(
        (row for row in rows if (row.shape.m, row.shape.n) == (m, n)), key=lambda r: r.shape.k
    )
    found: dict[str, Curve] = {}
    for name in dict.fromkeys(row.epilogue for row in rows):
        found[f"ping-pong, {name}"] = _curve(here, name, "ping-pong/cooperative")
    found["cuBLAS, bare"] = _curve(here, BARE, "cuBLAS/cooperative")
    return f"M={m}, N={n}", {name: curve for name, curve in found.items() if curve}


def _curve(rows: Sequence[Row], epilogue: str, ratio: str) -> Curve:
    mine = (row for row in rows if row.epilogue == epilogue)
    return [(row.shape.k, row.ratios[ratio]) for row in mine if ratio in row.ratios]


def plot(rows: Sequence[Row], title: str, path: Path) -> None:
    """Write :func:`curves` as a PNG; below 1 the cooperative kernel is slower.

    Raises:
        UnsupportedError: matplotlib is not installed.
    """
    where, found = curves(rows)
    figure = new_figure(8, 4.5)
    axes = figure.subplots()
    for name, curve in found.items():
        ks = [k for k, _ in curve]
        style = "--" if name.startswith("cuBLAS") else "-"
        color = "black" if name.startswith("cuBLAS") else None
        (line,) = axes.plot(
            ks, [s.median for _, s in curve], style, marker="o", label=name, color=color
        )
        lows, highs = [s.low for _, s in curve], [s.high for _, s in curve]
        axes.fill_between(ks, lows, highs, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.axhline(1, color="gray", linewidth=1)
    axes.set_xscale("log", base=2)
    ticks = sorted({k for curve in found.values() for k, _ in curve})
    axes.set_xticks(ticks, [str(k) for k in ticks])
    axes.set_xlabel("K")
    axes.set_ylabel("time / time of the cooperative kernel")
    axes.set_title(f"{title}, {where}", loc="left")
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
