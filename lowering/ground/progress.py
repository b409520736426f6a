"""What takes long says how far it is; who wants to show it listens, and nobody else pays for it.

Work is in front of who shows it by several layers, and in no hurry: it names what it begins, and a
text that changes is a function, which is called when there is somebody to look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

__all__ = ["Listener", "doing", "told"]

What = str | Callable[[], str]


class Listener(Protocol):
    """Who is told of work that begins and ends, the inner between the two of the outer."""

    def begins(self, what: What) -> None:
        """Work begins; ``what`` may be called at any time until it ends, by any thread."""

    def ends(self) -> None:
        """The work that began last is over, or was given up."""


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def told(listener: Listener | None) -> Iterator[None]:
    """Tell somebody of work in this thread, None nobody, for as long as the context lasts."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def doing(what: What) -> Iterator[None]:
    """Work that may take seconds: what it is, or how far it is when that is asked."""
    listener = _listener.get()
    if listener is None:
        yield
        return
    listener.begins(what)
    try:
        yield
    finally:
        listener.ends()
