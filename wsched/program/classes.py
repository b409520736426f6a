"""Classes of inputs: what is checked, decided and packed once for all calls that are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["ALIGNMENT", "Key", "class_key", "told_apart"]

Key = tuple[Any, ...]

ALIGNMENT = 16
"""Addresses are told apart modulo this: TMA takes multiples of it."""

NOWHERE = 0.5
"""In place of the address 0: what has elements and no memory is of no class that has been run."""


def class_key(inputs: Sequence[Any]) -> Key | None:
    """All that decides how inputs are handled, but for their addresses and numbers' values.

    None if one of them is neither a strided tensor nor a number, or has the negative bit: then its
    memory does not hold its numbers; nor does that of what somebody traces or transforms.
    """
    from wsched.importer.watched import is_traced  # which imports torch, as who has tensors does

    if is_traced():
        return None
    try:
        key = tuple(
            [
                (t.shape, t.stride(), t.dtype, t.device, (t.data_ptr() or NOWHERE) % ALIGNMENT)
                for t in inputs
            ]
        )
        return None if True in [t.is_neg() for t in inputs] else key
    except (AttributeError, RuntimeError, TypeError):
        return _mixed_key(inputs)


def _mixed_key(inputs: Sequence[Any]) -> Key | None:
    """The class of inputs with numbers, of which the types count."""
    try:
        key = tuple(
            [
                type(t)
                if isinstance(t, (int, float))
                else (t.shape, t.stride(), t.dtype, t.device, (t.data_ptr() or NOWHERE) % ALIGNMENT)
                for t in inputs
            ]
        )
        negated = [not isinstance(t, (int, float)) and t.is_neg() for t in inputs]
    except (AttributeError, RuntimeError, TypeError):
        return None
    return None if True in negated else key


def told_apart(tensors: Sequence[Any]) -> Callable[[Sequence[Any]], bool] | None:
    """What tells whether others are of these tensors' class, sooner than their key is made; None
    where torch has nothing for it.

    Torch looks at all of them in one call, as it does for what it has compiled: eight take 2.3 us
    where their key and what is kept for it take 11.5, and 29 where they take 71 as the first thing
    behind a wait for the GPU (H200, 2026-11-29). It asks for more than a class, be it whether
    gradients are wanted, so it may say no of tensors that are alike. Of a nested tensor it must not
    be asked: that has no strides, and what C++ throws then ends the process.
    """
    guards = _guards()
    if guards is None:
        return None
    sizes, strides = [[*t.shape] for t in tensors], [[*t.stride()] for t in tensors]
    check = guards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    plain, aligned = [False] * len(tensors), [t.data_ptr() % ALIGNMENT for t in tensors]

    def alike(given: Sequence[Any]) -> bool:
        try:
            if [t.is_nested for t in given] != plain or not check(*given):
                return False
        except AttributeError:  # of what is no tensor
            return False
        return [t.data_ptr() % ALIGNMENT for t in given] == aligned

    return alike


def _guards() -> Any:
    """What torch checks tensors with, which is not public."""
    try:
        from torch._C._dynamo.guards import TensorGuards
    except ImportError:
        return None
    return TensorGuards
