"""A figure of matplotlib's for whoever draws, or what to install."""

from __future__ import annotations

import importlib
from typing import Any

from lowering.ground.errors import UnsupportedError

__all__ = ["new_figure"]


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
