"""Classes of inputs: what is checked, decided and packed once for all calls that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["ALIGNMENT", "Key", "class_key"]

Key = tuple[Any, ...]

ALIGNMENT = 16
"""Addresses are told apart modulo this: TMA takes multiples of it."""


def class_key(inputs: Sequence[Any]) -> Key | None:
    """All that decides how inputs are handled, but for their addresses and numbers' values.

    None if one of them is neither a strided tensor nor a number.
    """
    try:
        return tuple(
            [(t.shape, t.stride(), t.dtype, t.device, t.data_ptr() % ALIGNMENT) for t in inputs]
        )
    except (AttributeError, RuntimeError, TypeError):
        return _mixed_key(inputs)


def _mixed_key(inputs: Sequence[Any]) -> Key | None:
    """The class of inputs with numbers, of which the types count."""
    try:
        key = tuple(
            [
                type(t)
                if isinstance(t, (int, float))
                else (t.shape, t.stride(), t.dtype, t.device, t.data_ptr() % ALIGNMENT)
                for t in inputs
            ]
        )
    except (AttributeError, RuntimeError, TypeError):
        return None
    return key
