"""The losses as a waterfall."""

from __future__ import annotations

from pathlib import Path

from wsched.figures import new_figure, save_figure
from wsched.losses.facts import Facts

__all__ = ["draw"]

_BOUND, _LOSS, _LARGEST = "#2a6f97", "#edae9f", "#d1495b"


def draw(why: Facts, path: Path) -> None:
    """Write a bar for the roofline, one for each loss where the one before ends, and one for all.

    Args:
        why: what is drawn.
        path: of the picture, a PNG.

    Raises:
        UnsupportedError: matplotlib is not installed.
        OSError: it cannot be written.
    """
    found = [x for x in why.losses if x.us > 0.001 * why.us]
    largest = {x.loss.effect for x in why.largest}
    names = ["roofline", *(x.effect for x in found), "predicted"]
    figure = new_figure(10, 1.2 + 0.32 * len(names), layout="constrained")
    axes = figure.subplots()
    rows, begins, widths, colours = range(len(names)), [0.0], [why.roofline.us], [_BOUND]
    for x in found:
        begins.append(begins[-1] + widths[-1])
        widths.append(x.us)
        colours.append(_LARGEST if x.effect in largest else _LOSS)
    begins, widths, colours = [*begins, 0.0], [*widths, why.us], [*colours, _BOUND]
    axes.barh(rows, widths, left=begins, color=colours)
    for row, begin, width in zip(rows, begins, widths, strict=True):
        sign = "+" if 0 < row < len(names) - 1 else ""
        axes.annotate(
            f"{sign}{width:.1f}", (begin + width, row), (3, 0),
            textcoords="offset points", va="center", fontsize="small",
        )  # fmt: skip
    axes.set_yticks(rows, names)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.1 * why.us)
    axes.set_xlabel("us")
    axes.set_title(f"{why.problem} on {why.gpu}: {why.kernel}", loc="left", fontsize="small")
    save_figure(figure, path, dpi=90, metadata={"Software": None})
