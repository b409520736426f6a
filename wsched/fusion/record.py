"""One step of a schedule as plain data: the call that made it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Record", "call_text"]


def call_text(op: str, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...] = ()) -> str:
    """A call as Python source, ``split('T3', 0, 128)``."""
    named = [f"{k}={v!r}" for k, v in kwargs]
    return f"{op}({', '.join([*map(repr, args), *named])})"


@dataclass(frozen=True, slots=True)
class Record:
    """A call of the primitive ``op``; the fusion, its first argument, is left out."""

    op: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return call_text(self.op, self.args, self.kwargs)
