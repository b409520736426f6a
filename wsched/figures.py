"""Matplotlib for whoever draws, or what to install."""

from __future__ import annotations

import importlib
from typing import Any

from lowering.ground.errors import UnsupportedError

__all__ = ["load_pyplot"]


def load_pyplot() -> Any:
    """Return matplotlib.pyplot, for files only.

    Raises:
        UnsupportedError: matplotlib is not installed.
    """
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
    except ImportError as error:
        raise UnsupportedError(
            "a picture without matplotlib", "wsched[bench]", "pip install 'wsched[bench]'"
        ) from error
    matplotlib.use("Agg")
    return importlib.import_module("matplotlib.pyplot")
