"""Integers of 4 bits as callers have them: eight in each word of 32, along the last dimension, the
first one in its lowest bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.program import memory

__all__ = ["in_words", "of_words", "sizes_of"]

_EACH = 8


def sizes_of(dtype: DataType, given: Any) -> tuple[int, ...]:
    """The sizes that a definition says of a tensor of a type: of words those of their integers.

    Args:
        dtype: of the definition's input.
        given: the tensor, torch's or NumPy's.
    """
    return memory.sizes_of(dtype.element, given) if dtype.is_stored else tuple(given.shape)


def in_words(numbers: Any) -> Any:
    """Integers from 0 to 15, an array of ``uint8``, as words.

    Raises:
        UnsupportedError: the rows end within a word.
    """
    if numbers.shape[-1] % _EACH:
        what = f"rows of {numbers.shape[-1]} integers of 4 bits in words of 32"
        raise UnsupportedError(what, f"multiples of {_EACH} of them")
    pairs = numbers[..., ::2] | numbers[..., 1::2] << 4
    return np.ascontiguousarray(pairs).view("<i4")


def of_words(words: Any) -> Any:
    """The integers of words, an array of ``uint8``."""
    two = np.ascontiguousarray(words).view(np.uint8)
    return np.stack((two & 15, two >> 4), -1).reshape(*two.shape[:-1], 2 * two.shape[-1])
