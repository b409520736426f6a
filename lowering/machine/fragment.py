"""Fragments of a warp, and where their elements lie in the matrix.

A warp holds its part of a ``rows x cols`` fragment as an array
``[32 lanes, rows / 64 blocks, cols / 8, 2 halves, 2]``: the last three are the four elements that a
thread has of each 8 columns, in register order. Half 1 is 8 rows below half 0, and a lane's row
and column come from ``lane = 4 row + column / 2`` (``FragmentType`` has the formula). Elements
of fewer than 32 bits are raw bits (``held_type``), predicates bool. Where all rows are one,
``blocks`` and ``halves`` are 1; where all columns are one, ``cols / 8`` and the last are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.types import FragmentType

__all__ = [
    "Array", "block_to_lanes", "convert", "element_rows_cols", "filled", "held_type", "lane_rows",
    "row_lanes", "to_float32",
]  # fmt: skip

Array = npt.NDArray[Any]


def block_to_lanes(block: Array) -> Array:
    """A warp's 16 rows of a 64-row block, ``[16, cols]``, as ``[32, cols / 8, 2, 2]``."""
    cols = block.shape[1]
    parts = block.reshape(2, 8, cols // 8, 4, 2)  # half, row, 8 columns, pair of columns, column
    return parts.transpose(1, 3, 2, 0, 4).reshape(32, cols // 8, 2, 2)


def lane_rows(data: Array) -> Array:
    """A warp's fragment ``[32, blocks, cols / 8, 2, 2]`` as rows of 8x8 matrices.

    The result is ``[blocks, cols / 8, 2, 8, 8]``: block, 8 columns, half, row of the matrix,
    column of the matrix. Four lanes hold a row.
    """
    _, blocks, groups, _, _ = data.shape
    parts = data.reshape(8, 4, blocks, groups, 2, 2)
    return parts.transpose(2, 3, 4, 0, 1, 5).reshape(blocks, groups, 2, 8, 8)


def row_lanes(rows: Array) -> Array:
    """Rows of 8x8 matrices ``[blocks, cols / 8, 2, 8, 8]`` as a warp's fragment; the inverse."""
    blocks, groups = rows.shape[:2]
    parts = rows.reshape(blocks, groups, 2, 8, 4, 2).transpose(3, 4, 0, 1, 2, 5)
    return np.ascontiguousarray(parts).reshape(32, blocks, groups, 2, 2)


def element_rows_cols(type_: FragmentType, warp: int) -> tuple[Array, Array]:
    """Row and column of each 8x8 matrix row ``[blocks, cols / 8, 2, 8]`` of ``lane_rows``.

    ``warp`` is 0..3; the column is that of the row's first element.
    """
    block, group, half, row = np.indices((type_.rows // 64, type_.cols // 8, 2, 8))
    return 64 * block + 16 * warp + 8 * half + row, 8 * group


def filled(type_: FragmentType, value: float) -> Array:
    """A warp's part of a fragment with every element ``value``."""
    shape = (32, type_.blocks, type_.groups, *type_.group)
    return convert(np.full(shape, value, np.float32), DType.F32, type_.dtype)


def convert(data: Array, source: DType, target: DType) -> Array:
    """Elements of one type as another, rounded to nearest even; always a new array."""
    if source is target:
        return data.copy()
    return from_float32(to_float32(data, source), target)


def held_type(dtype: DType) -> str:
    """NumPy type of a fragment's elements: their own, or that of their bits below 32 bits."""
    return dtype.raw if dtype.register_bits < 32 else dtype.numpy


def to_float32(data: Array, dtype: DType) -> Array:
    """Elements as they are held as float32, exact; predicates as they are.

    Raises:
        UnsupportedError: a type whose values float32 does not have, or one unknown here.
    """
    if dtype in (DType.F32, DType.PRED):
        return data
    if dtype is DType.BF16:
        return (data.astype(np.uint32) << 16).view(np.float32)
    if dtype is DType.F16:
        return data.view(np.float16).astype(np.float32)
    raise _no_arithmetic(dtype)


def from_float32(data: Array, dtype: DType) -> Array:
    """float32 values as elements, round to nearest even; every NaN becomes the same one.

    Raises:
        UnsupportedError: no rounding to the type is known.
    """
    if dtype is DType.F32:
        return data
    if dtype is DType.F16:
        return data.astype(np.float16).view(np.uint16)
    if dtype is not DType.BF16:
        raise _no_arithmetic(dtype)
    bits = np.ascontiguousarray(data).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(data), 0x7FFF, rounded).astype(np.uint16)


def _no_arithmetic(dtype: DType) -> UnsupportedError:
    known = ", ".join(d.value for d in (DType.BF16, DType.F16, DType.F32))
    return UnsupportedError(f"arithmetic on {dtype.value} on the machine", known)
