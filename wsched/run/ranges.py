"""``WSCHED_NVTX=1``: calls as ranges in profilers, named by what their definition computes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["VARIABLE", "ranged"]

VARIABLE = "WSCHED_NVTX"
"""The environment variable: 1 for ranges. It is read once for each class of calls."""

Run = TypeVar("Run", bound=Callable[..., Any])


def ranged(run: Run, name: Callable[[], str]) -> Run:
    """A function that runs within a range, or the function itself where nobody wants ranges.

    Args:
        run: what runs.
        name: of the range, which profilers show.
    """
    if os.environ.get(VARIABLE, "").strip() in ("", "0"):
        return run
    import torch

    push, pop, told = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop, name()

    def call(*args: Any) -> Any:
        push(told)
        try:
            return run(*args)
        finally:
            pop()

    return call  # type: ignore[return-value]
