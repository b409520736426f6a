"""What a picture shows, read from the figure that is saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Picture", "drawn"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of rows of bars.

    Args:
        rows: their labels from above.
        bars: of each row, by its label, what is drawn there: name, begin and end.
        title: above it.
        unit: below it.
        names: of colours, in the legend.
    """

    rows: list[str]
    bars: dict[str, set[tuple[str, float, float]]]
    title: str
    unit: str
    names: list[str]


def drawn(draw: Callable[[Path], None], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Picture:
    """The picture that ``draw`` saves in a folder, which is skipped without matplotlib."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figures, save = list[Any](), Figure.savefig

    def keep(figure: Any, *args: Any, **named: Any) -> None:
        figures.append(figure)
        save(figure, *args, **named)

    monkeypatch.setattr(Figure, "savefig", keep)
    draw(folder / "f.png")
    assert (folder / "f.png").read_bytes().startswith(b"\x89PNG")
    (figure,) = figures
    (axes,) = figure.axes
    places = dict(
        zip(axes.get_yticks(), (t.get_text() for t in axes.get_yticklabels()), strict=True)
    )
    bars: dict[str, set[tuple[str, float, float]]] = {name: set() for name in places.values()}
    for drawn_together in axes.collections:
        for box in (path.get_extents() for path in drawn_together.get_paths()):
            row = places[round((box.y0 + box.y1) / 2, 6)]
            bars[row].add((drawn_together.get_label(), box.x0, box.x1))
    rows = [places[at] for at in sorted(places, reverse=not axes.yaxis_inverted())]
    names = [t.get_text() for legend in figure.legends for t in legend.get_texts()]
    return Picture(rows, bars, axes.get_title(loc="left"), axes.get_xlabel(), names)
