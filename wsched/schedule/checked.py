"""Parameters in dataclasses: fields of the declared types, plain data and text of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lowering.ground.errors import ScheduleError

__all__ = ["Checked", "Choice", "build", "changed", "lines", "plain"]


class Choice(Enum):
    """An enum that prints as its name; members are themselves alone, and hashed so."""

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


class Checked:
    """A dataclass whose fields have the types that they are declared with.

    What is written by hand or read from a file is refused here, where the field can be named. A
    list in place of a tuple is refused too: parameters are keys of caches.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        """Raises ``ScheduleError`` for the first field of another type."""
        made: type = type(self)
        read, sound = _seen(made)
        kinds = tuple([
            tuple(map(type, v)) if type(v) is tuple else v if type(v) is str else type(v)
            for v in read(self)
        ])  # fmt: skip
        if kinds in sound:
            return
        for f, kind, classes, literals in _declared(made):
            value = getattr(self, f.name)
            found = tuple(map(type, value)) if type(value) is tuple else type(value)
            known = found in classes or (found is str and value in literals)
            if not known and not _is_a(value, kind):
                raise ScheduleError(
                    "params",
                    f"{made.__name__}({f.name}={value!r})",
                    f"{f.name} takes {_phrase(kind)}",
                    _examples(f, kind),
                )
        if len(sound) < _MOST:
            sound.add(kinds)


_MOST = 256
"""Types of fields that are remembered of a dataclass; all of a choice's schedules have a few."""


@cache
def _seen(kind: type) -> tuple[Callable[[Any], tuple[Any, ...]], set[tuple[Any, ...]]]:
    """What reads a dataclass's fields, and the types that these had, and strings, where they were
    as declared: a choice of schedule makes a thousand of such dataclasses.
    """
    names = [f.name for f in fields(kind)]
    read = attrgetter(*names)
    return (read if len(names) > 1 else lambda made: (read(made),)), set()


@cache
def _declared(
    kind: type,
) -> tuple[tuple[Field[Any], Any, frozenset[Any], frozenset[Any]], ...]:
    """The fields of a dataclass, each with its type, and of that classes, classes of a tuple's
    elements, and literals that need no further look.
    """
    hints = get_type_hints(kind)
    return tuple((f, hints[f.name], *_plain_kinds(hints[f.name])) for f in fields(kind))


def _plain_kinds(kind: Any) -> tuple[frozenset[Any], frozenset[Any]]:
    """Of a type or a union of types: classes whose every member it has, tuples of such for tuples,
    and literals.
    """
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    classes = (k for k in kinds if isinstance(k, type) and get_origin(k) is None)
    literals = (x for k in kinds if get_origin(k) is Literal for x in get_args(k))
    tuples = (get_args(k) for k in kinds if get_origin(k) is tuple)
    return frozenset((*classes, *tuples)), frozenset(literals)


def _is_a(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return any(_is_a(value, k) for k in get_args(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        if kinds[1:] == (...,):
            return isinstance(value, tuple) and all(_is_a(v, kinds[0]) for v in value)
        pairs = isinstance(value, tuple) and len(value) == len(kinds)
        return pairs and all(map(_is_a, value, kinds))
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _phrase(kind: Any) -> str:
    """A type in words."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(map(_phrase, get_args(kind)))
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        if kinds[1:] == (...,):
            return f"a tuple of {kinds[0].__name__}"
        return f"a tuple ({', '.join(k.__name__ for k in kinds)})"
    if kind is type(None):
        return "None"
    return f"{'an' if kind is int else 'a'} {kind.__name__}"


def _examples(f: Field[Any], kind: Any) -> tuple[str, ...]:
    """Every member of an enum, else the default."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(f"{f.name}={member!r}" for member in kind)
    made = f.default_factory() if f.default_factory is not MISSING else f.default
    return () if made is MISSING else (f"{f.name}={made!r}",)


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dicts: enums by name, dataclasses by their fields."""
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    return [plain(v) for v in value] if isinstance(value, tuple) else value


def build(default: Any, data: Any, where: str) -> Any:
    """``data`` as a value of the type that ``default`` has."""
    if isinstance(default, Enum):
        kind = type(default)
        if not isinstance(data, str) or data not in kind.__members__:
            why = f"there is no {kind.__name__}.{data}"
            raise ScheduleError("params", f"{where}={data!r}", why, tuple(kind.__members__))
        return kind[data]
    if not is_dataclass(default):
        return tuple(data) if isinstance(data, list) else data
    names = [f.name for f in fields(default)]
    if not isinstance(data, dict):
        why = f"a {type(default).__name__} is written as a dict of its fields"
        raise ScheduleError("params", f"{where}={data!r}", why, (json.dumps(plain(default)),))
    for name in data:
        if name not in names:
            why = f"there is no field {name}"
            raise ScheduleError("params", f"{where}.{name}", why, tuple(names))
    made: type = type(default)
    values, several = {n: getattr(default, n) for n in names}, _elements(made)
    for n, v in data.items():
        if n in several and isinstance(v, list):
            values[n] = tuple(build(several[n](), x, f"{where}.{n}[{i}]") for i, x in enumerate(v))
        else:
            values[n] = build(values[n], v, f"{where}.{n}")
    return made(**values)


@cache
def _elements(kind: type) -> dict[str, Callable[[], Any]]:
    """The fields of a dataclass that are tuples of dataclasses, with the class of these."""
    hints: dict[str, tuple[Any, ...]] = {
        n: get_args(h) for n, h in get_type_hints(kind).items() if get_origin(h) is tuple
    }
    return {n: h[0] for n, h in hints.items() if h[1:] == (...,) and _is_record(h[0])}


def _is_record(kind: Any) -> bool:
    return is_dataclass(kind)


def lines(value: Any, indent: str) -> list[str]:
    """``field: value`` for each field, indented; those within go on below theirs."""
    found = []
    for f in fields(value):
        item = getattr(value, f.name)
        if is_dataclass(item) and type(item).__str__ is object.__str__:
            found += [f"{indent}{f.name}:", *lines(item, indent + "  ")]
        elif _several(item):
            for at, one in enumerate(item):
                found += [f"{indent}{f.name}[{at}]:", *lines(one, indent + "  ")]
        else:
            found.append(f"{indent}{f.name}: {item}")
    return found


def changed(value: Any, default: Any, of: str = "") -> list[str]:
    """``field=value`` for each field that is not as ``default`` has it, those within by a dot."""
    found = []
    for f in fields(value):
        item, other = getattr(value, f.name), getattr(default, f.name)
        if is_dataclass(item) and type(item).__str__ is object.__str__:
            found += changed(item, other, f"{of}{f.name}.")
        elif _several(item):
            for at, one in enumerate(item):
                found += changed(one, type(one)(), f"{of}{f.name}[{at}].")
        elif item != other:
            found.append(f"{of}{f.name}={item}")
    return found


def _several(item: Any) -> bool:
    """Whether a value is dataclasses in a tuple."""
    return isinstance(item, tuple) and any(map(is_dataclass, item))
