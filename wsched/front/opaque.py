"""Operators of torch's for what nobody who traces looks into: ``wsched.execute`` and plain doors.

What a door does with its arguments, addresses and strides among it, is nothing that can be traced;
so where Dynamo traces, or another of those in :mod:`wsched.importer.watched`, a door calls its
operator, whose fake kernel says shapes and types of the results. That of ``execute`` takes more
(:mod:`wsched.front.traced`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import torch
except ImportError:
    torch = None

__all__ = ["opaque", "operator"]

_libraries: list[Any] = []
"""Kept: an operator goes with its library."""


def operator(schema: str, run: Callable[..., Any], shapes: Callable[..., Any]) -> Any:
    """Give torch an operator ``wsched::NAME``, if torch is there; the library that it is in.

    Args:
        schema: its name, arguments and results.
        run: the door, whose results lie in memory of their own.
        shapes: results without values, of tensors without memory.
    """
    if torch is None:
        return None
    name = f"wsched::{schema.partition('(')[0]}"
    library = torch.library.Library("wsched", "FRAGMENT")
    library.define(schema)
    library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(name, shapes, lib=library)
    _libraries.append(library)
    return library


def opaque(name: str, *given: Any) -> Any:
    """What is traced in place of a door; results stop gradients, as they do in eager mode."""
    held = [x.detach() if isinstance(x, torch.Tensor) else x for x in given]
    return getattr(torch.ops.wsched, name)(*held)
