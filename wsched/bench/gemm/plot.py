"""The ratios as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wsched.bench.gemm.results import Summary
from wsched.bench.peers.systems import REFERENCE
from wsched.figures import new_figure

__all__ = ["plot"]


def plot(summary: Summary, title: str, path: Path) -> None:
    """Write bars of the ratio to cuBLAS per shape, with quartiles, as a PNG.

    Raises:
        UnsupportedError: matplotlib is not installed.
    """
    names = [n for n in summary.systems if n != REFERENCE]
    figure = new_figure(1.6 * len(summary.shapes) + 2, 4.5)
    axes = figure.subplots()
    width = 0.8 / max(len(names), 1)
    for i, name in enumerate(names):
        _bars(axes, summary, name, (i + 0.5) * width - 0.4, width)
    axes.axhline(1, color="black", linewidth=1, label=REFERENCE)
    axes.set_xticks(range(len(summary.shapes)), [str(s) for s in summary.shapes], rotation=20)
    axes.set_ylabel("throughput / cuBLAS")
    axes.set_title(title, loc="left")
    axes.legend(fontsize="small", ncols=3)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def _bars(axes: Any, summary: Summary, name: str, offset: float, width: float) -> None:
    places, heights, below, above = [], [], [], []
    for place, shape in enumerate(summary.shapes):
        ratio = summary.cells[shape, name].ratio
        if ratio is None:
            continue
        places.append(place + offset)
        heights.append(ratio.median)
        # The median over processes may lie outside of the quartiles over all rounds.
        below.append(max(ratio.median - ratio.low, 0))
        above.append(max(ratio.high - ratio.median, 0))
    axes.bar(places, heights, width, yerr=(below, above), label=name, error_kw={"linewidth": 0.8})
