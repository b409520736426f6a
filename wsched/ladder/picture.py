"""Time lines of all rungs, one below the other on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wsched.figures import new_figure, save_figure
from wsched.ladder.climb import Step
from wsched.predict.activity import ACTIVITIES, Lane, Part
from wsched.trace.spans import Span
from wsched.trace.timeline import Trace

__all__ = ["draw", "lanes_of_trace"]

_COLOURS = {
    "copy": "#7f7f7f", "data": "#f2c14e", "room": "#f7e3a1", "multiply": "#2a6f97",
    "convert": "#d1495b", "stored": "#edae9f", "reckon": "#9a8fb8",
    "others": "#e0e0e0",
}  # fmt: skip

_SPANS = {
    "load": "copy", "transform": "convert", "turn": "others", "main_loop": "multiply",
    "epilogue": "convert", "store_wait": "stored", "drain": "stored",
}  # fmt: skip
"""What the spans of a recorded trace are drawn as: a main loop has its waits for slices in it."""


def draw(rows: Sequence[tuple[Step, Sequence[Lane]]], unit: str, path: Path) -> None:
    """Write a picture: of each step its lanes. The axis ends with the slowest but a fifth of them,
    whose lanes go on beyond it.

    Args:
        rows: steps with what warps did, in the same unit.
        unit: of the times.
        path: of the picture, a PNG.

    Raises:
        UnsupportedError: matplotlib is not installed.
        OSError: it cannot be written.
    """
    count = sum(len(lanes) for _, lanes in rows)
    figure = new_figure(12, 1.5 + 0.36 * count, layout="constrained")
    axes = figure.subplots()
    at, names = 0, []
    for step, lanes in rows:
        for lane in lanes:
            for activity in ACTIVITIES:
                bars = [(p.begin, p.end - p.begin) for p in lane.parts if p.activity == activity]
                axes.broken_barh(
                    bars, (at - 0.4, 0.8), facecolors=_COLOURS[activity],
                    label=f"{activity}: {ACTIVITIES[activity]}",
                )  # fmt: skip
            names.append(f"{step.rung.name} {lane.name}")
            at += 1
    axes.set_yticks(range(at), names)
    axes.invert_yaxis()
    ends = sorted(max(p.end for lane in lanes for p in lane.parts) for _, lanes in rows)
    axes.set_xlim(0, 1.05 * ends[-1 - len(ends) // 5])
    axes.set_xlabel(f"time [{unit}]")
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if handles:
        figure.legend(
            handles.values(), handles, loc="outside lower center", ncols=2, fontsize="small"
        )
    save_figure(figure, path, dpi=90, metadata={"Software": None})


def lanes_of_trace(trace: Trace) -> tuple[Lane, ...]:
    """What the first CTA of a recorded run did, by its stamps: one span is one activity."""
    first = min((s.cta for s in trace.spans), default=0)
    return tuple(
        Lane(f"{role}[{group}]", tuple(_cut(track)))
        for (cta, role, group), track in trace.tracks().items()
        if cta == first
    )


def _cut(track: Sequence[Span]) -> list[Part]:
    """Spans in order, an inner one cut out of the one around it."""
    found: list[Part] = []
    for s in track:
        if found and s.begin < found[-1].end:
            around = found.pop()
            found.append(Part(around.activity, around.begin, s.begin))
            found.append(Part(_SPANS[s.name], s.begin, s.end))
            found.append(Part(around.activity, s.end, around.end))
        else:
            found.append(Part(_SPANS[s.name], s.begin, s.end))
    return [p for p in found if p.end > p.begin]
