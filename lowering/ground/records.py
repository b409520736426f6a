"""Records: dataclasses all of whose fields are arguments. Nodes of every language here are such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["fields_of", "quick", "replaced", "values_of"]

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Record = TypeVar("_Record", bound=DataclassInstance)
    _Kind = TypeVar("_Kind", bound=type[DataclassInstance])


def _reader(cls: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of a kind's fields, and what reads all of them at once."""
    names: tuple[str, ...] = cls.__match_args__  # all fields are arguments
    if not names:
        return names, lambda _: ()
    read = attrgetter(*names)
    return names, read if len(names) > 1 else lambda record: (read(record),)


_readers: Callable[[type], tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]]
_readers = cache(_reader)


def values_of(record: DataclassInstance) -> dict[str, Any]:
    """What stands in the fields of a record, by their names."""
    names, read = _readers(type(record))
    return dict(zip(names, read(record), strict=True))


def fields_of(record: DataclassInstance) -> tuple[Any, ...]:
    """What stands in the fields of a record, in their order."""
    return _readers(type(record))[1](record)


def replaced(record: _Record, **values: Any) -> _Record:
    """``dataclasses.replace`` without its look at how each field is declared, most of its time.

    All fields are given in their order: what a record has thousands of times is a call by names.

    Raises:
        TypeError: there is no field of that name.
    """
    names, read = _readers(type(record))
    if not values.keys() <= {*names}:
        unknown = ", ".join(sorted(values.keys() - {*names}))
        raise TypeError(f"{type(record).__name__} has no field {unknown}")
    return type(record)(*map(values.get, names, read(record)))


def quick(cls: _Kind) -> _Kind:
    """A frozen record with slots, made in half the time: for kinds of which a kernel has thousands.

    The ``__init__`` of a frozen dataclass looks each field up by its name; this one asks the slots.

    Args:
        cls: the dataclass; its fields may have defaults, but no factories.

    Raises:
        TypeError: a field has one, or is no argument.
    """
    scope: dict[str, Any] = {}
    params, lines = ["self"], list[str]()
    for field in fields(cls):
        if not field.init or field.default_factory is not MISSING:
            raise TypeError(f"{cls.__name__}.{field.name}: no argument, or made anew each time")
        scope[f"_set_{field.name}"] = getattr(cls, field.name).__set__
        scope[f"_default_{field.name}"] = field.default
        given = "" if field.default is MISSING else f"=_default_{field.name}"
        params.append(field.name + given)
        lines.append(f"    _set_{field.name}(self, {field.name})")
    lines += ["    self.__post_init__()"] * hasattr(cls, "__post_init__")
    exec("\n".join([f"def __init__({', '.join(params)}):", *lines]), scope)
    made = scope["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = cls.__init__.__annotations__
    type.__setattr__(cls, "__init__", made)
    return cls
