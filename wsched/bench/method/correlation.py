"""Rank correlation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["rank_correlation"]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's coefficient: the correlation of the ranks, equal values sharing theirs.

    None for fewer than two pairs, or where all values of one side are equal.
    """
    a, b = _ranks(first), _ranks(second)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values")
    a, b = a - a.mean() if len(a) else a, b - b.mean() if len(b) else b
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else None


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Place of each value among them, the mean of the places where several are equal."""
    array = np.asarray(values)
    below = (array[None, :] < array[:, None]).sum(axis=1)
    equal = (array[None, :] == array[:, None]).sum(axis=1)
    return np.asarray(below + (equal - 1) / 2, dtype=np.float64)
