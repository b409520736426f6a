"""A property that is found out once, whichever thread asks first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from lowering.ground.locks import Lock

__all__ = ["once"]

T = TypeVar("T")

_LOCK = "_once_lock"


class once(Generic[T]):  # noqa: N801 - written and read like ``property``
    """``functools.cached_property`` under one lock for each object.

    Before Python 3.12 that one has a lock for all objects, since then none: threads that ask at the
    same time each compute a value, and one of them is kept. Here they wait for the first. The
    lock is reentrant, so that one such property may use another. Once found, the value is read
    from the object's ``__dict__`` without a lock. An exception is not kept: the next one to ask
    tries again.

    Args:
        make: computes the value from the object, which needs a ``__dict__``.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> once[T] | T:
        if instance is None:
            return self
        kept = vars(instance)
        with kept.setdefault(_LOCK, Lock()):  # setdefault of a dict is atomic
            if self._name not in kept:
                kept[self._name] = self._make(instance)
        found: T = kept[self._name]
        return found
