"""How far results are from those that are wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["largest_error"]


def largest_error(results: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest of the errors of torch tensors; NaN if one is."""
    found = [_distance(r, w) for r, w in zip(results, wanted, strict=True)]
    return math.nan if any(map(math.isnan, found)) else max(found)


def _distance(result: Any, wanted: Any) -> float:
    """Relative Frobenius error; of what has no fractions the share of elements that differ.

    What should be infinite, as scores behind a mask, is no further off than it is.
    """
    if not result.is_floating_point():
        return float((result != wanted).float().mean()) if result.numel() else 0.0
    found, right = result.double(), wanted.double()
    alike = right.isinf() & (found == right)
    if bool(alike.any()):
        found, right = found.masked_fill(alike, 0.0), right.masked_fill(alike, 0.0)
    norm = float(right.norm())
    off = float((found - right).norm())
    return off / norm if norm else math.inf if off else 0.0
