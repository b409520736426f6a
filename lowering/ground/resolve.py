"""Values that depend on one another, found without recursion.

A chain of operations may be longer than the interpreter's stack, and what several of them read is
found once. A generator says how a value is found: it yields the keys of the values that it needs,
one after the other, is sent each of these, and returns its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

__all__ = ["resolve"]

K = TypeVar("K")
V = TypeVar("V")


def resolve(key: K, steps: Callable[[K], Generator[K, V, V]], found: dict[K, V]) -> V:
    """The value of ``key``, which is in ``found`` then, and so is all that it needed.

    Args:
        key: what is asked for.
        steps: how the value of a key is found; it may raise, and never needs itself.
        found: values by their keys; none that is here is found again.
    """
    pending = [] if key in found else [(key, steps(key))]
    sent: Any = None  # what a generator starts with
    while pending:
        at, running = pending[-1]
        try:
            asked = running.send(sent)
        except StopIteration as e:
            found[at] = sent = e.value
            pending.pop()
            continue
        sent = found.get(asked)
        if asked not in found:
            pending.append((asked, steps(asked)))
    return found[key]
