"""Locks that a fork waits for.

A child has the locks of its parent as they were, but none of the threads that would let them go: a
kernel that was being compiled in another thread, by Python or within NVRTC, would never be done
there, and whoever asks for it waits for ever. So a fork waits until no thread holds one of these
locks, and nobody takes one meanwhile. All locks of this tree are of this kind, and all of them are
off the path of a call that has been seen before.
"""

from __future__ import annotations

import os
import threading
import time

__all__ = ["Lock"]

_PATIENCE = 60.0
"""Seconds that a fork waits at most: longer than a kernel takes to compile. It goes on then, since
a thread that waits for the one that forks would otherwise stop both.
"""


class _Gate:
    """Which threads are among locks."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._depths: dict[int, int] = {}
        self._forking = False

    def enter(self) -> None:
        """Come in; a thread that is inside already need not wait for a fork, which waits for it."""
        me = threading.get_ident()
        with self._changed:
            while self._forking and me not in self._depths:
                self._changed.wait()
            self._depths[me] = self._depths.get(me, 0) + 1

    def leave(self) -> None:
        """Go, as often as one came."""
        me = threading.get_ident()
        with self._changed:
            depth = self._depths.pop(me) - 1
            if depth:
                self._depths[me] = depth
            elif self._forking:
                self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait until nobody is inside, and keep the gate shut; at once for who is inside."""
        until = time.monotonic() + _PATIENCE
        self._changed.acquire()
        self._forking = True
        while self._depths and threading.get_ident() not in self._depths:
            if not self._changed.wait(until - time.monotonic()):
                break

    def after_in_parent(self) -> None:
        """Open it again."""
        self._forking = False
        self._changed.notify_all()
        self._changed.release()

    def after_in_child(self) -> None:
        """Open it; of the threads only this one is left."""
        me = threading.get_ident()
        self._depths = {t: depth for t, depth in self._depths.items() if t == me}
        self._changed, self._forking = threading.Condition(threading.Lock()), False


_gate = _Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_gate.before_fork,
        after_in_parent=_gate.after_in_parent,
        after_in_child=_gate.after_in_child,
    )


class Lock:
    """A lock for ``with``, which the thread that holds it may take again."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        _gate.enter()
        try:
            self._lock.acquire()
        except BaseException:  # interrupted while it waited
            _gate.leave()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        _gate.leave()
