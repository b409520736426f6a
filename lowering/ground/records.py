"""Records: dataclasses all of whose fields are arguments. Nodes of every language here are such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["replaced", "values_of"]

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Record = TypeVar("_Record", bound=DataclassInstance)

_names: Callable[[type], tuple[str, ...]] = cache(lambda cls: tuple(x.name for x in fields(cls)))


def values_of(record: DataclassInstance) -> dict[str, Any]:
    """What stands in the fields of a record, by their names."""
    return {name: getattr(record, name) for name in _names(type(record))}


def replaced(record: _Record, **values: Any) -> _Record:
    """``dataclasses.replace`` without its look at how each field is declared, most of its time."""
    return type(record)(**(values_of(record) | values))
