"""What a picture shows, all of it, as text: read from the figure that is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["shown"]


def shown(draw: Callable[[Path], object], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What ``draw`` saves in a folder, line by line; skipped without matplotlib."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    saved, save = list[tuple[Any, dict[str, Any]]](), Figure.savefig

    def keep(figure: Any, path: Any, **named: Any) -> None:
        saved.append((figure, named))
        save(figure, path, **named)

    monkeypatch.setattr(Figure, "savefig", keep)
    draw(folder / "f.png")
    assert (folder / "f.png").read_bytes().startswith(b"\x89PNG")
    ((figure, named),) = saved
    return "\n".join(_figure(figure, named))


def _figure(figure: Any, named: dict[str, Any]) -> Iterator[str]:
    layout = type(figure.get_layout_engine()).__name__
    yield f"{_numbers(figure.get_size_inches())} inches, {layout}, saved {named}"
    if figure._suptitle is not None:
        yield f"over all: {_text(figure._suptitle)}"
    for axes in figure.axes:
        yield "axes"
        yield from (f"  {line}" for line in _axes(axes))
    for legend in figure.legends:
        yield f"legend {_legend(legend)}"


def _axes(axes: Any) -> Iterator[str]:
    for where in ("left", "center"):
        if axes.get_title(loc=where):
            yield f"title, {where}: {axes.get_title(loc=where)!r}"
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        inverted = ", inverted" if axis.get_inverted() else ""
        yield f"{name}: {axis.get_label().get_text()!r}, {axis.get_scale()}{inverted}"
        if not getattr(axes, f"get_autoscale{name}_on")():
            yield f"  from {_numbers(getattr(axes, f'get_{name}lim')())}"
        if type(axis.get_major_locator()).__name__ == "FixedLocator":
            labels = axis.get_ticklabels()
            turned = f", turned by {labels[0].get_rotation():g}" if labels else ""
            pairs = zip(axis.get_ticklocs(), labels, strict=True)
            yield f"  at {', '.join(f'{at:g} {x.get_text()!r}' for at, x in pairs)}{turned}"
    for c in axes.collections:
        boxes = [_numbers([*b.min, *b.max]) for b in (p.get_extents() for p in c.get_paths())]
        alpha = c.get_alpha()
        sizes = getattr(c, "get_sizes", lambda: ())()
        points = [_numbers(p) for p in c.get_offsets()] if len(sizes) else boxes
        yield f"{_label(c)} {_colours(c.get_facecolor())} {alpha} {_numbers(sizes)}: {points}"
    for p in axes.patches:
        box = p.get_x(), p.get_y(), p.get_width(), p.get_height()
        yield f"bar {_label(p)} {_colours([p.get_facecolor()])}: {_numbers(box)}"
    for x in axes.lines:
        style = f"{x.get_color()} {x.get_linestyle()} {x.get_marker()} {x.get_linewidth():g} wide"
        yield f"line {_label(x)} {style}: {_numbers(x.get_xdata())}; {_numbers(x.get_ydata())}"
    for t in axes.texts:
        yield f"{_text(t)} at {_numbers(getattr(t, 'xy', t.get_position()))}, {t.get_va()}"
    if axes.get_legend() is not None:
        yield f"legend {_legend(axes.get_legend())}"


def _legend(legend: Any) -> str:
    names = [t.get_text() for t in legend.get_texts()]
    return f"{legend._loc} in {legend._ncols}, {legend._fontsize:g}: {', '.join(names)}"


def _text(t: Any) -> str:
    return f"{t.get_text()!r} {t.get_fontsize():g} {t.get_ha()} {_numbers(t.get_position())}"


def _label(artist: Any) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") else repr(label)


def _colours(rows: Any) -> str:
    from matplotlib.colors import to_hex

    return " ".join(dict.fromkeys(to_hex(tuple(c), keep_alpha=True) for c in rows))


def _numbers(values: Any) -> str:
    return " ".join(f"{float(v):.6g}" for v in values)
