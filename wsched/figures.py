"""A figure of matplotlib's for whoever draws, or what to install; and its picture as a file."""

from __future__ import annotations

import importlib
from io import BytesIO
from pathlib import Path
from typing import Any

from lowering.ground.errors import UnsupportedError
from lowering.ground.files import save_file

__all__ = ["new_figure", "save_figure"]


def new_figure(width: float, height: float, **named: Any) -> Any:
    """Return a ``matplotlib.figure.Figure`` of so many inches, for files only.

    It is nobody's but its owner's: no window, no list of pyplot's keeps one whose saving failed.

    Raises:
        UnsupportedError: matplotlib is not installed.
    """
    try:
        figure: Any = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise UnsupportedError(
            "a picture without matplotlib", "wsched[bench]", "pip install 'wsched[bench]'"
        ) from error
    return figure.Figure(figsize=(width, height), **named)


def save_figure(figure: Any, path: Path, **named: Any) -> None:
    """Write a figure as a PNG, drawn before the file is touched.

    Args:
        figure: of :func:`new_figure`.
        path: of the picture.
        named: further arguments of ``Figure.savefig``.

    Raises:
        OSError: it cannot be written; a former picture is as it was.
    """
    drawn = BytesIO()
    figure.savefig(drawn, format="png", **named)
    save_file(path, drawn.getvalue())
