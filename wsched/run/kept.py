"""The kernels that a process keeps: those that were used most recently."""

from __future__ import annotations

import os
from typing import TypeVar

from lowering.ground.errors import WschedError
from lowering.ground.natural import natural
from lowering.ground.recent import Recent
from wsched.run.compiled import CompiledFusion

__all__ = ["VARIABLE", "Kept"]

VARIABLE = "WSCHED_KERNELS"
"""The environment variable: how many kernels are kept in memory, 512 where it is unset or empty.

One takes 0.1 to 0.3 MB with its cubin. What goes is made again when it is asked for, in
milliseconds, its cubin read from disk; a kernel that somebody holds, a live definition's say, stays
as long as that.
"""

K = TypeVar("K")


class Kept(Recent[K, CompiledFusion]):
    """Kernels by what tells them apart, at most as many as :data:`VARIABLE` says."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_limit)


def _limit() -> int:
    """Raises WschedError if the variable has no number."""
    setting = os.environ.get(VARIABLE, "").strip() or "512"
    if not (found := natural(setting)):
        raise WschedError(f"{VARIABLE}={setting}: use a number of kernels, 1 or more")
    return found
