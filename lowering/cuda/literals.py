"""Floating-point literals of C++."""

from __future__ import annotations

import ctypes
import math

__all__ = ["literal"]


def literal(value: float) -> str:
    """A literal of exactly the fp32 value nearest to ``value``; infinities and NaN as bits."""
    single = ctypes.c_float(value).value
    if math.isfinite(single):
        return f"{single!r}f"
    bits = "7fc00000" if math.isnan(single) else "7f800000" if single > 0 else "ff800000"
    return f"__uint_as_float(0x{bits}u)"
