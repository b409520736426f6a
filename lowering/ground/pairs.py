"""Arithmetic on pairs of 16 bits: one instruction for two elements, each rounded once.

It gives the bits of fp32 that is rounded behind. Of ``p`` significant bits (8 of bf16, 11 of fp16)
a sum, or difference, that is rounded to ``2 p + 2`` bits or more first becomes the same number
(S. Figueroa, When is double rounding innocuous?, SIGNUM 30, 1995), and fp32 has 24. Products are no
such operations: those of bf16 may be less than the smallest normal number of fp32.
"""

from __future__ import annotations

import struct

from lowering.ground.dtypes import NUMBERS_OF_8_BITS, DType

__all__ = ["OPERATIONS", "PAIRED", "SMALLER", "bits_of", "has_all"]

PAIRED = (DType.BF16, DType.F16)
"""Types of which there are instructions for two elements at once."""

OPERATIONS = ("add", "sub")
"""What these instructions compute, by the names of pointwise operations."""


SMALLER = {(dtype, DType.BF16): -6 for dtype in (DType.U4, DType.S8, DType.U8)}
"""Powers of two that elements of a type, as one of pairs, are multiplied by where that takes fewer
instructions than without (``lowering.cuda.narrow``)."""


def has_all(dtype: DType, narrow: DType) -> bool:
    """Whether a type of pairs has all values of another one."""
    return narrow is dtype or narrow is DType.U4 or narrow in NUMBERS_OF_8_BITS


def bits_of(dtype: DType, number: float) -> int | None:
    """The bits of a number as a type of pairs; None where that does not have it."""
    try:
        if dtype is DType.F16:
            raw = struct.pack("<e", number)
            return int.from_bytes(raw, "little") if struct.unpack("<e", raw)[0] == number else None
        raw = struct.pack("<f", number)
    except OverflowError:
        return None
    exact = struct.unpack("<f", raw)[0] == number and raw[:2] == b"\0\0"
    return int.from_bytes(raw[2:], "little") if exact else None
