"""The calls that made a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from wsched.fusion.primitive_call import PrimitiveCall

__all__ = ["History"]

_Chain = tuple[Any, PrimitiveCall] | None
"""A call behind the chain of those before it."""


class History(Sequence[PrimitiveCall]):
    """Calls, oldest first; immutable. It equals the tuple of them.

    Every state of a schedule has one, so they share what they have in common: one call more is made
    in the same time, however many there are.

    Args:
        calls: the calls.
    """

    __slots__ = ("_chain", "_length")

    def __init__(self, calls: Iterable[PrimitiveCall] = ()) -> None:
        self._chain: _Chain = None
        self._length = 0
        for call in calls:
            self._chain = (self._chain, call)
            self._length += 1

    def and_then(self, call: PrimitiveCall) -> History:
        """With one more."""
        longer = History()
        longer._chain = (self._chain, call)
        longer._length = self._length + 1
        return longer

    def __len__(self) -> int:
        return self._length

    def __reversed__(self) -> Iterator[PrimitiveCall]:
        at = self._chain
        while at is not None:
            at, call = at
            yield call

    def __iter__(self) -> Iterator[PrimitiveCall]:
        return iter([*reversed(self)][::-1])

    def __getitem__(self, index: Any) -> Any:
        if index == -1 and self._chain is not None:
            return self._chain[1]
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, History | tuple):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return History, (tuple(self),)
