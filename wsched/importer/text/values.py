"""What an expression of a text can stand for while it is read; a definition keeps :data:`Value`."""

from __future__ import annotations

import ast
from collections.abc import MutableMapping
from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from wsched.importer.definition import Open, Ref, Value

__all__ = [
    "Function", "Handle", "Library", "Method", "Python", "Scope", "TorchMethod", "TorchTensor",
    "Unread", "defaults_of", "is_open", "touches",
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


@dataclass(frozen=True, slots=True)
class TorchTensor:
    """A tensor: sizes, strides in elements, and torch's name of the type."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str = "torch.float32"


@dataclass(frozen=True, slots=True)
class TorchMethod:
    """A method of a tensor, before it is called."""

    of: TorchTensor
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


Python = (
    Value | Handle | Library | Method | Function | Unread | TorchTensor | TorchMethod
    | tuple["Python", ...]
)  # fmt: skip
Scope = MutableMapping[str, Python]
"""Names of the text and what they stand for."""


def defaults_of(args: ast.arguments) -> dict[str, ast.expr]:
    """The defaults of a function's parameters, by name."""
    last = reversed([*args.posonlyargs, *args.args])
    found = {a.arg: d for a, d in zip(last, reversed(args.defaults), strict=False)}
    pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    return found | {a.arg: d for a, d in pairs if d is not None}


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
