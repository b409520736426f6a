"""What an expression of a text can stand for while it is read; a definition keeps :data:`Value`."""

from __future__ import annotations

import ast
from collections.abc import MutableMapping
from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from wsched.importer.definition import Open, Ref, Value

__all__ = [
    "Function", "Handle", "Library", "Method", "Python", "Scope", "Unread", "is_open", "touches",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Handle:
    """The definition object or something of it: empty, ``ops``, ``ops.linear``, ``add_output``."""

    path: str


@dataclass(frozen=True, slots=True)
class Library:
    """Something of a library, by its dotted name: ``torch.bfloat16``; never imported."""

    path: str


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a tensor of the definition, before it is called."""

    of: Ref
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function of the text; ``scope`` has the names where it is defined."""

    node: ast.FunctionDef
    scope: Scope


@dataclass(frozen=True, slots=True)
class Unread:
    """What a name was given that is not understood; an error only where the name is used."""

    error: UnsupportedError


Python = Value | Handle | Library | Method | Function | Unread | tuple["Python", ...]
Scope = MutableMapping[str, Python]
"""Names of the text and what they stand for."""


def touches(e: ast.AST, scope: Scope) -> bool:
    """Whether an expression names the definition, a tensor of it or a function of the text."""
    names = (scope.get(x.id) for x in ast.walk(e) if isinstance(x, ast.Name))
    return any(_is_part(value) for value in names)


def _is_part(value: Python) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_part, value))
    return isinstance(value, Handle | Ref | Method | Function)


def is_open(value: Python) -> bool:
    """Whether the text leaves a value or a part of it open."""
    if isinstance(value, tuple):
        return any(map(is_open, value))
    return isinstance(value, Open)
