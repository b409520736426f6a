"""Frozen dataclasses all of whose fields are arguments: nodes of every language here are such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

__all__ = ["fields_of", "quick", "replaced", "values_of"]

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Made = TypeVar("_Made", bound=DataclassInstance)
    _Kind = TypeVar("_Kind", bound=type[DataclassInstance])


_Reader: TypeAlias = tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]], frozenset[str]]


def _reader(cls: Any) -> _Reader:
    """The names of a kind's fields, what reads all of them at once, and the names as a set."""
    names: tuple[str, ...] = cls.__match_args__  # all fields are arguments
    if not names:
        return names, lambda _: (), frozenset()
    read = attrgetter(*names)
    every = read if len(names) > 1 else lambda made: (read(made),)
    return names, every, frozenset(names)


_readers: Callable[[type], _Reader] = cache(_reader)


def values_of(made: DataclassInstance) -> dict[str, Any]:
    """What stands in the fields of a value, by their names."""
    names, read, _ = _readers(type(made))
    return dict(zip(names, read(made), strict=True))


def fields_of(made: DataclassInstance) -> tuple[Any, ...]:
    """What stands in the fields of a value, in their order."""
    return _readers(type(made))[1](made)


def replaced(made: _Made, **values: Any) -> _Made:
    """``dataclasses.replace`` without its look at how each field is declared, most of its time.

    All fields are given in their order: what a value has thousands of times is a call by names.
    What has these very values already is returned as it is.

    Raises:
        TypeError: there is no field of that name.
    """
    names, read, known = _readers(type(made))
    if not values.keys() <= known:
        unknown = ", ".join(sorted(values.keys() - known))
        raise TypeError(f"{type(made).__name__} has no field {unknown}")
    if all(getattr(made, name) is value for name, value in values.items()):
        return made
    return type(made)(*map(values.get, names, read(made)))


def quick(cls: _Kind) -> _Kind:
    """A frozen dataclass with slots, made in half the time: for what a kernel has thousands of.

    The ``__init__`` of a frozen dataclass looks each field up by its name; this one asks the slots.

    Args:
        cls: the dataclass; its fields may have defaults, or factories of such.

    Raises:
        TypeError: a field is no argument.
    """
    scope: dict[str, Any] = {}
    params, lines = ["self"], list[str]()
    for field in fields(cls):
        if not field.init:
            raise TypeError(f"{cls.__name__}.{field.name}: no argument")
        scope[f"_set_{field.name}"] = getattr(cls, field.name).__set__
        scope[f"_default_{field.name}"] = field.default
        made_anew = field.default_factory is not MISSING
        given = "" if field.default is MISSING and not made_anew else f"=_default_{field.name}"
        params.append(field.name + given)
        if made_anew:
            scope[f"_make_{field.name}"] = field.default_factory
            lines.append(f"    if {field.name} is _default_{field.name}:")
            lines.append(f"        {field.name} = _make_{field.name}()")
        lines.append(f"    _set_{field.name}(self, {field.name})")
    lines += ["    self.__post_init__()"] * hasattr(cls, "__post_init__")
    exec("\n".join([f"def __init__({', '.join(params)}):", *lines]), scope)
    made = scope["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = cls.__init__.__annotations__
    type.__setattr__(cls, "__init__", made)
    return cls
