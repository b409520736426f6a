"""What groups have of a product, for references: each of its own part of what all share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from wsched.fusion import Fusion, TensorBinding

__all__ = ["Einsum", "own_parts", "rows_added", "sums_of_groups"]

Einsum: TypeAlias = Callable[[str, Any, Any], Any]
"""A product by its formula, in fp32, as a NumPy array."""


def sums_of_groups(einsum: Einsum, ends: Any) -> Einsum:
    """The same that also computes sums over groups, whose formula has a dimension in its result
    that neither side has: of each group the product of its part of K.

    Args:
        einsum: for what is no such sum, and for each group of one.
        ends: where each group ends, as an array.
    """

    def made(formula: str, x: Any, y: Any) -> Any:
        sides, result = formula.split("->")
        left, right = sides.split(",")
        batch = next((name for name in result if name not in sides), None)
        if batch is None:
            return einsum(formula, x, y)
        summed = next(name for name in left if name in right and name not in result)
        each = f"{sides}->{result.replace(batch, '')}"
        found = [
            einsum(each, _part(x, left.index(summed), *run), _part(y, right.index(summed), *run))
            for run in pairwise([0, *ends.tolist()])
        ]
        return np.stack(found, result.index(batch))

    return made


def _part(x: Any, at: int, begin: int, end: int) -> Any:
    return x[(slice(None),) * at + (slice(begin, end),)]


def rows_added(binding: TensorBinding, value: Any, inputs: Mapping[str, Any], end: int) -> Any:
    """What a caller gets of a result whose rows are added to others; itself of any other.

    Args:
        binding: the result.
        value: of :func:`own_parts`.
        inputs: in fp32, by their tensors.
        end: of the last group; rows behind it are nobody's.
    """
    if binding.added is None:
        return value
    rows, onto = inputs[binding.added.rows][:end].astype(np.int64), inputs[binding.added.onto]
    found, known = np.array(onto, np.float32), (rows >= 0) & (rows < len(onto))
    np.add.at(found, rows[known], value[:end][known])
    return found


def own_parts(fusion: Fusion, binding: TensorBinding, value: Any, ends: Any) -> Any:
    """What a caller gets of a result that was computed of all rows, or columns, for every group:
    of each the one of the group that has it. What is behind the last end is that of the last one.

    Args:
        fusion: of groups.
        binding: the result.
        value: it, with the dimensions of the fusion's products.
        ends: where each group ends, as an array.
    """
    groups = fusion.groups
    if groups is None or groups.axis in binding.axes:
        return value
    batch, at = map(fusion.result_axes.index, (groups.axis, groups.along))
    value = np.moveaxis(value, (batch, at), (0, 1))
    places = np.arange(value.shape[1])
    which = np.searchsorted(ends, places, side="right")
    own = value[np.minimum(which, len(ends) - 1), places]
    return np.moveaxis(own, 0, at - (batch < at))
