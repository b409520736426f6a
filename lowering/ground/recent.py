"""What was used most recently, up to a number of things and of bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from lowering.ground.locks import Lock

__all__ = ["Recent", "bounded"]

K = TypeVar("K")
V = TypeVar("V")


def bounded(kept: dict[K, V], key: K, value: V, limit: int) -> None:
    """Add to a dictionary, which is read without a lock; the oldest entry makes room. One thread at
    a time may do so.
    """
    if len(kept) >= limit:
        kept.pop(next(iter(kept)))
    kept[key] = value


class Recent(Generic[K, V]):
    """Values by key; those that were used longest ago go when there are too many.

    Args:
        count: how many may stay, asked whenever one is added; at least one does.
        nbytes: how many bytes they may have together; None for any.
        weigh: bytes of a value.

    Safe to use from threads.
    """

    __slots__ = ("_bytes", "_count", "_found", "_limit", "_lock", "_weigh")

    def __init__(
        self,
        count: Callable[[], int],
        nbytes: int | None = None,
        weigh: Callable[[V], int] = lambda _: 0,
    ) -> None:
        self._count, self._limit, self._weigh = count, nbytes, weigh
        self._found: dict[K, V] = {}
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: K) -> V | None:
        """The value, which is the most recently used one now; None if there is none."""
        with self._lock:
            found = self._found.pop(key, None)
            if found is not None:
                self._found[key] = found
            return found

    def add(self, key: K, value: V) -> V:
        """Keep a value, in place of the one that the key had; the value."""
        most = self._count()
        with self._lock:
            before = self._found.pop(key, None)
            self._bytes += self._weigh(value) - (0 if before is None else self._weigh(before))
            self._found[key] = value
            while len(self._found) > max(most, 1) or self._is_heavy():
                self._bytes -= self._weigh(self._found.pop(next(iter(self._found))))
        return value

    def _is_heavy(self) -> bool:
        return self._limit is not None and self._bytes > self._limit and len(self._found) > 1

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._found.clear()
            self._bytes = 0
