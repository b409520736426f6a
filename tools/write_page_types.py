"""Writes ``page/src/model.ts``: the classes of ``wsched.explore.data`` as types of TypeScript."""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from wsched.explore import data

__all__ = ["types_text"]

TARGET = Path(__file__).resolve().parent.parent / "page" / "src" / "model.ts"

_PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", NoneType: "null"}


def types_text() -> str:
    """The text of the file."""
    found = [getattr(data, name) for name in data.__all__]
    parts = [_interface(kind) for kind in found if is_dataclass(kind)]
    head = "// Written by tools/write_page_types.py from wsched/explore/data.py, which explains it."
    return "\n\n".join([head, *parts]) + "\n"


def _interface(kind: Any) -> str:
    hints = get_type_hints(kind)
    lines = [f"  readonly {f.name}: {_type(hints[f.name])};" for f in fields(kind)]
    return "\n".join([f"export interface {kind.__name__} {{", *lines, "}"])


def _type(hint: Any) -> str:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, UnionType):
        return " | ".join(map(_type, get_args(hint)))
    if get_origin(hint) is tuple:
        first, *others = get_args(hint)
        if others == [Ellipsis]:
            inner = _type(first)
            return f"readonly ({inner})[]" if " " in inner else f"readonly {inner}[]"
        return f"readonly [{', '.join(map(_type, (first, *others)))}]"
    if hint.__module__ != data.__name__:
        raise TypeError(f"{hint} has no type in a page's model")
    return str(hint.__name__)


if __name__ == "__main__":
    TARGET.write_text(types_text(), encoding="utf-8")
    sys.exit(0)
