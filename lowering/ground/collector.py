"""Python's cyclic collector, paused while a kernel is made.

Trees of a kernel have no cycles, so their memory comes back without it. What it would do instead is
go through all that a process has imported, at a moment that the number of objects decides: as long
as half a compile takes (design/performance.md).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from lowering.ground.locks import Lock

__all__ = ["paused"]


class _Pauses:
    """How many blocks are open in all threads, and whether the collector ran before the first."""

    def __init__(self) -> None:
        self.lock, self.count, self.ran = Lock(), 0, False

    def begin(self) -> None:
        with self.lock:
            if self.count == 0:
                self.ran = gc.isenabled()
                gc.disable()
            self.count += 1

    def end(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0 and self.ran:
                gc.enable()


_pauses = _Pauses()


@contextmanager
def paused() -> Iterator[None]:
    """No collection within the block, or function, in any thread; behind it as before."""
    with Lock():  # of its own: a fork waits for the end of the block, or its child has no collector
        _pauses.begin()
        try:
            yield
        finally:
            _pauses.end()
