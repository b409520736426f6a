"""A property that threads ask for at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from wsched.run.once import once


class Slow:
    """Counts how often its properties are computed."""

    def __init__(self, failures: int = 0) -> None:
        self.made: list[str] = []
        self.failures = failures

    @once
    def inner(self) -> object:
        """What ``outer`` needs."""
        self.made.append("inner")
        time.sleep(0.02)
        return object()

    @once
    def outer(self) -> tuple[object]:
        self.made.append("outer")
        if self.failures:
            self.failures -= 1
            raise ValueError("not yet")
        return (self.inner,)


def at_once(ask: Callable[[], object], threads: int = 4) -> list[object]:
    """What threads get that start together."""
    barrier, found = threading.Barrier(threads), list[object]()

    def run() -> None:
        barrier.wait()
        found.append(ask())

    started = [threading.Thread(target=run) for _ in range(threads)]
    for t in started:
        t.start()
    for t in started:
        t.join(20)
    return found


def test_threads_get_one_value_that_is_made_once() -> None:
    slow = Slow()
    found = at_once(lambda: slow.outer)
    assert len(found) == 4 and {id(x) for x in found} == {id(slow.outer)}
    assert slow.made == ["outer", "inner"]


def test_objects_have_values_and_locks_of_their_own() -> None:
    first, second = Slow(), Slow()
    assert first.inner is not second.inner
    assert first.outer[0] is first.inner
    assert vars(first)["_once_lock"] is not vars(second)["_once_lock"]


def test_an_error_is_not_kept() -> None:
    slow = Slow(failures=1)
    with pytest.raises(ValueError, match="not yet"):
        slow.outer  # noqa: B018
    assert slow.outer == (slow.inner,)


def test_the_class_has_the_docstring() -> None:
    assert isinstance(Slow.inner, once)
    assert Slow.inner.__doc__ == "What ``outer`` needs."
