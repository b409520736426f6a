"""A time line as a picture."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.trace.spans import COLUMNS, Trace

__all__ = ["plot"]

_COLOURS = {
    "load": "#7f7f7f", "turn": "#f2c14e", "main_loop": "#2a6f97", "epilogue": "#d1495b",
    "store_wait": "#edae9f", "drain": "#edae9f",
}  # fmt: skip


def plot(trace: Trace, path: Path, ctas: int) -> None:
    """Write a row of bars for each warpgroup of the first ``ctas`` CTAs as a PNG.

    Raises:
        UnsupportedError: matplotlib is not installed.
    """
    try:
        canvas: Any = importlib.import_module("matplotlib.backends.backend_agg")
    except ImportError as error:
        raise UnsupportedError(
            "a plot of a trace without matplotlib", "wsched[bench]", "pip install 'wsched[bench]'"
        ) from error
    shown = sorted({s.cta for s in trace.spans})[:ctas]
    tracks = {key: track for key, track in trace.tracks().items() if key[0] in shown}
    figure: Any = importlib.import_module("matplotlib.figure").Figure(
        figsize=(12, 1.4 + 0.45 * len(tracks)), layout="constrained"
    )
    axes = figure.subplots()
    for row, track in enumerate(tracks.values()):
        for name in COLUMNS:  # inner spans come later and lie on top
            bars = [(s.begin, s.end - s.begin) for s in track if s.name == name]
            axes.broken_barh(bars, (row - 0.4, 0.8), facecolors=_COLOURS[name], label=name)
    axes.set_yticks(range(len(tracks)), [f"CTA {c} {role}[{group}]" for c, role, group in tracks])
    axes.invert_yaxis()
    axes.set_xlabel(f"time [{trace.unit}]")
    overlap = trace.epilogue_overlap()
    covered = "" if overlap is None else f": {100 * overlap:.0f} % of the epilogue under main loops"
    axes.set_title(trace.kernel + covered, loc="left", fontsize="small")
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if handles:
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(COLUMNS))
    canvas.FigureCanvasAgg(figure).print_png(path)
