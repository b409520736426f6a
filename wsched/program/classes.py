"""Classes of inputs: what is checked, decided and packed once for all calls that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Key", "class_key"]

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
    numbers = [isinstance(t, bool | int | float) for t in inputs]
    if not any(numbers):
        return None
    tensors = class_key([t for t, number in zip(inputs, numbers, strict=True) if not number])
    kinds = [type(t) if n else None for t, n in zip(inputs, numbers, strict=True)]
    return None if tensors is None else (*kinds, tensors)
