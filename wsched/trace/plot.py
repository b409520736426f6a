"""A time line as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wsched.figures import new_figure, save_figure
from wsched.trace.spans import COLUMNS, Span, epilogue_overlap, tracks

__all__ = ["draw_rows", "plot"]

_COLOURS = {
    "load": "#7f7f7f", "transform": "#6b8f3a", "turn": "#f2c14e", "main_loop": "#2a6f97",
    "epilogue": "#d1495b", "store_wait": "#edae9f", "drain": "#edae9f",
}  # fmt: skip


def plot(kernel: str, unit: str, spans: Sequence[Span], path: Path, ctas: int) -> None:
    """Write a row of bars for each warpgroup of the first ``ctas`` CTAs as a PNG.

    Args:
        kernel: its name, and what else is to be said.
        unit: of all times.
        spans: of the run.
        path: of the picture.
        ctas: how many are shown.

    Raises:
        UnsupportedError: matplotlib is not installed.
    """
    shown = sorted({s.cta for s in spans})[:ctas]
    rows = {
        f"CTA {cta} {role}[{group}]": track
        for (cta, role, group), track in tracks(spans).items()
        if cta in shown
    }
    overlap = epilogue_overlap(spans)
    covered = "" if overlap is None else f": {100 * overlap:.0f} % of the epilogue under main loops"
    draw_rows(rows, kernel + covered, unit, path)


def draw_rows(rows: Mapping[str, Sequence[Span]], title: str, unit: str, path: Path) -> None:
    """Write rows of bars as a PNG, each a track of spans.

    Args:
        rows: by their labels, from above.
        title: of the picture.
        unit: of all times.
        path: of the picture.

    Raises:
        UnsupportedError: matplotlib is not installed.
    """
    figure = new_figure(12, 1.4 + 0.45 * len(rows), layout="constrained")
    axes = figure.subplots()
    for row, track in enumerate(rows.values()):
        for name in COLUMNS:  # inner spans come later and lie on top
            bars = [(s.begin, s.end - s.begin) for s in track if s.name == name]
            axes.broken_barh(bars, (row - 0.4, 0.8), facecolors=_COLOURS[name], label=name)
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlabel(f"time [{unit}]")
    axes.set_title(title, loc="left", fontsize="small")
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if handles:
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(COLUMNS))
    save_figure(figure, path)
