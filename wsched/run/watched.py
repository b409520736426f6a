"""``WSCHED_WATCHDOG=1``: kernels whose waits have a bound, and an error that says who waits.

A kernel that hangs is a defect, and nothing can be asked of it. With a watchdog each wait for an
mbarrier or a counter ends after so many seconds: the warps that wait write down for what, the
kernel traps, and the call raises :class:`HangError`. The process has lost its CUDA context then. A
call waits for its kernel, so that the error is its own, and cannot be captured in a graph.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lowering.ground.errors import InternalError, UnsupportedError, WschedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.waits import Rows, rows_shape, stuck

if TYPE_CHECKING:
    import torch

    from lowering.cuda.launch import LoadedKernel

__all__ = ["VARIABLE", "WATCHED", "HangError", "bound_from_environment", "hang", "watched"]

VARIABLE = "WSCHED_WATCHDOG"
"""The environment variable: seconds that a wait may take; unset, empty or 0 for any time."""

WATCHED = "_watched"
"""Ends the name of a kernel whose waits have a bound."""


class HangError(InternalError):
    """Warps of a kernel waited for what did not come.

    Args:
        kernel: its name.
        waits: a line for each wait, the first that failed first.
    """

    def __init__(self, kernel: str, waits: tuple[str, ...]) -> None:
        self.waits = waits
        told = waits or ("no wait for an mbarrier or a counter: a named barrier, or a loop",)
        super().__init__("watchdog", "\n  ".join((f"{kernel} hangs", *told)))


def bound_from_environment() -> int:
    """Nanoseconds of :data:`VARIABLE`, 0 for no bound.

    Raises:
        WschedError: it is no number of seconds.
    """
    setting = os.environ.get(VARIABLE, "").strip() or "0"
    try:
        seconds = float(setting)
    except ValueError:
        seconds = math.nan
    if not (seconds == 0 or 0.001 <= seconds <= 3600):
        raise WschedError(
            f"{VARIABLE}={setting}: use the seconds that a wait may take, 0.001 to 3600, or 0"
        )
    return round(1e9 * seconds)


def hang(kernel: Kernel, rows: Rows) -> HangError:
    """The error of a kernel whose warps wrote these rows."""
    return HangError(kernel.name, stuck(kernel, rows))


def watched(
    loaded: LoadedKernel, tensors: Mapping[str, torch.Tensor], extents: Mapping[str, int], grid: int
) -> Callable[[], None]:
    """A launch of a watched kernel, as :meth:`LoadedKernel.prepare` packs it; it waits for its end.

    Raises:
        HangError: by the launch: a wait took longer than its bound.
        UnsupportedError: by the launch: its stream is being captured.
    """
    import torch

    kernel = loaded.kernel
    assert kernel.watch is not None
    shape = rows_shape(kernel, grid, extents)
    rows = torch.zeros(shape, dtype=torch.int64, pin_memory=True)
    launch = loaded.prepare({**tensors, kernel.watch.name: rows}, extents, grid)
    device = next(iter(tensors.values())).device

    def run() -> None:
        if torch.cuda.is_current_stream_capturing():
            what = f"capturing {kernel.name}, of which the host waits for the end,"
            raise UnsupportedError(what, "kernels without a watchdog", f"Unset {VARIABLE}")
        launch()
        try:
            torch.cuda.current_stream(device).synchronize()
        except RuntimeError as e:
            if rows.any():
                raise hang(kernel, rows.numpy()) from e
            raise

    return run
