"""How good the heuristic's choices are, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wsched.bench.problem import parse_shapes
from wsched.bench.schedules.results import LIMIT, Row, Totals
from wsched.figures import new_figure

__all__ = ["plot"]


def plot(rows: Sequence[Row], title: str, path: Path) -> None:
    """Write a PNG: the ratio of best and choice over M, and measured over predicted time.

    Raises:
        UnsupportedError: matplotlib is not installed.
    """
    figure = new_figure(11, 4.5)
    left, right = figure.subplots(1, 2)
    ratios = [(parse_shapes(r.shape)[0].m, r.ratio.median) for r in rows if r.ratio is not None]
    left.scatter([m for m, _ in ratios], [ratio for _, ratio in ratios], s=18, alpha=0.7)
    left.axhline(1, color="gray", linewidth=1)
    left.axhline(LIMIT, color="gray", linewidth=1, linestyle="--")
    if ratios:  # a logarithmic axis has to have something on it
        left.set_xscale("log", base=2)
    left.set_xlabel("M")
    left.set_ylabel("time of the best / of the choice")
    left.set_title(str(Totals.of(rows)).replace("; ", "\n"), loc="left", fontsize="small")
    times = [
        (r.predicted_us, r.choice_us)
        for r in rows
        if r.predicted_us is not None and r.choice_us is not None
    ]
    right.scatter([p for p, _ in times], [us for _, us in times], s=18, alpha=0.7)
    if times:
        ends = (min(map(min, times)), max(map(max, times)))
        right.plot(ends, ends, color="gray", linewidth=1)
        right.set_xscale("log")
        right.set_yscale("log")
    right.set_xlabel("predicted µs of the choice")
    right.set_ylabel("measured µs")
    figure.suptitle(title, x=0.01, ha="left")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
