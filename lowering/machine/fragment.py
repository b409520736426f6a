"""Fragments of a warp, and where their elements lie in the matrix.

A warp holds its part of a ``rows x cols`` fragment as an array
``[32 lanes, blocks, groups, halves, columns]``, all but the lanes as ``FragmentType.held`` counts
them, in register order; ``RegisterLayout`` has the formula of their rows and columns. Elements
of fewer than 32 bits are raw bits (``held_type``), predicates bool.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowering.ground.dtypes import FLOATS_OF_8_BITS, NUMBERS_OF_8_BITS, DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.layouts import ACCUMULATOR, RegisterLayout
from lowering.ground.types import FragmentType

__all__ = [
    "Array", "add_aligned", "add_product", "add_products", "block_to_lanes", "convert",
    "element_index", "element_rows_cols", "filled", "greater", "held_type", "lane_rows",
    "lanes_to_block", "less", "operand_values", "rounded", "rounded_to_tf32", "row_lanes",
    "sums_of_products", "to_float32", "unpacked",
]  # fmt: skip

Array = npt.NDArray[Any]


def block_to_lanes(block: Array, layout: RegisterLayout = ACCUMULATOR) -> Array:
    """A warp's 16 rows of a 64-row block, ``[16, cols]``, as ``[32, groups, 2, span]``."""
    groups, span = block.shape[1] // layout.columns, layout.span
    parts = block.reshape(2, 8, groups, 4, span)  # half, row, group, quarter of it, column
    return parts.transpose(1, 3, 2, 0, 4).reshape(32, groups, 2, span)


def lanes_to_block(lanes: Array) -> Array:
    """A warp's part of a block, ``[32, groups, 2, span]``, as rows ``[16, cols]``; the inverse."""
    _, groups, _, span = lanes.shape
    parts = lanes.reshape(8, 4, groups, 2, span).transpose(3, 0, 2, 1, 4)
    return parts.reshape(16, groups * 4 * span)


def lane_rows(data: Array) -> Array:
    """A warp's fragment ``[32, blocks, groups, 2, span]`` as rows of small matrices.

    The result is ``[blocks, groups, 2, 8, 4 span]``: block, group of columns, half, row of the
    matrix, column of the matrix. Four lanes hold a row.
    """
    _, blocks, groups, _, span = data.shape
    parts = data.reshape(8, 4, blocks, groups, 2, span)
    return parts.transpose(2, 3, 4, 0, 1, 5).reshape(blocks, groups, 2, 8, 4 * span)


def row_lanes(rows: Array) -> Array:
    """Rows of matrices ``[blocks, groups, 2, 8, 4 span]`` as a warp's fragment; the inverse."""
    blocks, groups, _, _, columns = rows.shape
    span = columns // 4
    parts = rows.reshape(blocks, groups, 2, 8, 4, span).transpose(3, 4, 0, 1, 2, 5)
    return np.ascontiguousarray(parts).reshape(32, blocks, groups, 2, span)


def unpacked(rows: Array) -> Array:
    """Rows of matrices of bytes ``[blocks, groups, 2, 8, 8]`` as those of the halves of bytes, the
    lower one first: ``[blocks, 2 groups, 2, 8, 8]``.
    """
    blocks, groups, _, _, columns = rows.shape
    halves = np.stack([rows & 15, rows >> 4], -1).reshape(blocks, groups, 2, 8, 2, columns)
    parts = halves.transpose(0, 1, 4, 2, 3, 5)
    return np.ascontiguousarray(parts).reshape(blocks, 2 * groups, 2, 8, columns)


def element_rows_cols(type_: FragmentType, warp: int) -> tuple[Array, Array]:
    """Row and column of each matrix row ``[blocks, groups, 2, 8]`` of ``lane_rows``.

    ``warp`` is 0..3; the column is that of the row's first element.
    """
    block, group, half, row = np.indices((type_.blocks, type_.groups, 2, 8))
    layout = type_.layout
    return layout.row(warp, 4 * row, block, half), layout.right(group, 0)


@lru_cache(maxsize=256)
def element_index(type_: FragmentType, warp: int) -> tuple[Array, Array]:
    """Row and column of a warp's elements, each broadcasting to ``[32, blocks, groups, 2, span]``.

    ``warp`` is 0..3. Of a row or column that all share, the index is 0.
    """
    lane, block, group, half, inner = np.ogrid[tuple(slice(n) for n in (32, *type_.held))]
    zero = np.zeros((32, 1, 1, 1, 1), int)
    rows = type_.layout.row(warp, lane, block, half) if type_.rows > 1 else zero
    cols = type_.layout.column(lane, group, inner) if type_.cols > 1 else zero
    return rows, cols


def filled(type_: FragmentType, value: float) -> Array:
    """A warp's part of a fragment with every element ``value``."""
    shape = (32, *type_.held)
    if type_.dtype is DType.S32:
        return np.full(shape, int(value), np.int32)
    return from_float32(np.full(shape, value, np.float32), type_.dtype)


def convert(data: Array, source: DType, target: DType) -> Array:
    """Elements of one type as another, rounded to nearest even; always a new array."""
    if source is target:
        return data.copy()
    return from_float32(to_float32(data, source), target)


def held_type(dtype: DType) -> str:
    """NumPy type of a fragment's elements: their own, or that of their bits below 32 bits."""
    return dtype.raw if dtype.register_bits < 32 else dtype.numpy


def to_float32(data: Array, dtype: DType) -> Array:
    """Elements as they are held as float32, exact but for s32, which is rounded to nearest even;
    predicates as they are.

    Raises:
        UnsupportedError: arithmetic on the type is not known.
    """
    if dtype in (DType.F32, DType.PRED):
        return data
    if dtype is DType.BF16:
        return (data.astype(np.uint32) << 16).view(np.float32)
    if dtype is DType.F16:
        return data.view(np.float16).astype(np.float32)
    if dtype is DType.S32:
        return data.astype(np.float32)
    if dtype in NUMBERS_OF_8_BITS or dtype is DType.U4:
        return operand_values(data, dtype)
    raise _no_arithmetic(dtype, *NUMBERS_OF_8_BITS, DType.S32)


def operand_values(data: Array, dtype: DType) -> Array:
    """Elements as the tensor core reads them, as float32, exact: of tf32 the upper 19 bits."""
    if dtype is DType.TF32:
        return (np.ascontiguousarray(data).view(np.uint32) & 0xFFFFE000).view(np.float32)
    kind = np.dtype(getattr(ml_dtypes, dtype.numpy, dtype.numpy))
    return np.ascontiguousarray(data).view(kind).astype(np.float32)


def rounded_to_tf32(raw: Array) -> Array:
    """Raw bits of float32, rounded to the 19 that the tensor core reads of tf32, to nearest even.

    That is what TMA does by a map of ``TFLOAT32`` (an H200, 2026-11-24: of a million numbers, half
    of them ties or beside one, subnormal ones among them, each bit). What is rounded beyond the
    largest number is infinite. A NaN stays one; which is an assumption.
    """
    even = raw + 0xFFF + (raw >> 13 & 1)
    nan = (raw & 0x7FFFFFFF) > 0x7F800000
    found: Array = np.where(nan, raw | 0x00400000, even) & np.uint32(0xFFFFE000)
    return found.astype(np.uint32)


def sums_of_products(a: Array, b: Array) -> Array:
    """Of rows of ``a`` and of ``b``, ``[rows of a, rows of b]``, float32: each is rounded once, so
    the order in which a library adds, which depends on shape and processor, is not seen.
    """
    with np.errstate(over="ignore"):
        return (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)


def add_product(before: Array, product: Array) -> Array:
    """``fma.rn.f32``: float32 numbers and products of two each, rounded once.

    A product of two float32 is exact as a float64; the sum of it and a third is rounded to odd
    there, so that float32 is what the exact sum is rounded to. NaN and infinities as they come.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        sums = before.astype(np.float64) + product
        added = sums - before
        lost = (before - (sums - added)) + (product - added)
        even = sums.view(np.int64) % 2 == 0
        inexact = np.isfinite(sums) & (lost != 0) & even
        odd = np.nextafter(sums, np.where(lost > 0, np.inf, -np.inf))
        return np.where(inexact, odd, sums).astype(np.float32)


def add_products(before: Array | None, products: Array, dtype: DType) -> Array:
    """Accumulators as they are held: what they were, or nothing, plus an instruction's sums of
    products, float32.

    s32 wraps around, f16 is rounded to nearest even. Products of integers are exact in float32: 32
    of them are below 2**24.
    """
    if dtype is DType.S32:
        sums = products.astype(np.int32)
        return sums if before is None else before + sums
    sums = products if before is None else to_float32(before, dtype) + products
    with np.errstate(over="ignore"):
        return from_float32(sums, dtype)


def add_aligned(before: Array | None, a: Array, b: Array, bits: int) -> Array:
    """Accumulators ``[16, N]`` and the products of ``a`` ``[16, K]`` and ``b`` ``[N, K]`` as a
    tensor core adds them that aligns all to the largest: of each it keeps ``bits`` behind the
    largest one's leading bit, and drops the others; of these the sum is exact.

    What is not finite is added as it is.
    """
    terms = a[:, None, :].astype(np.float64) * b[None]
    if before is not None:
        terms = np.concatenate([before[..., None], terms], axis=-1)
    largest = np.abs(terms).max(axis=-1, keepdims=True)
    _, exponent = np.frexp(largest)
    unit = np.ldexp(1.0, exponent - 1 - bits)
    with np.errstate(invalid="ignore"):
        kept = np.where(np.isfinite(largest), np.trunc(terms / unit) * unit, terms)
        return kept.sum(axis=-1).astype(np.float32)


def rounded(data: Array, dtype: DType) -> Array:
    """What arithmetic in float32 gives, as the type that it is to have: predicates, too."""
    return data if dtype is DType.PRED else from_float32(data, dtype)


def from_float32(data: Array, dtype: DType) -> Array:
    """float32 values as elements, round to nearest even; every NaN becomes the same one.

    Raises:
        UnsupportedError: no rounding to the type is known.
    """
    if dtype is DType.F32:
        return data
    if dtype is DType.F16:
        return data.astype(np.float16).view(np.uint16)
    if dtype in FLOATS_OF_8_BITS:
        return _saturated(data, dtype)
    if dtype is not DType.BF16:
        raise _no_arithmetic(dtype, *FLOATS_OF_8_BITS)
    bits = np.ascontiguousarray(data).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(data), 0x7FFF, rounded).astype(np.uint16)


def _saturated(data: Array, dtype: DType) -> Array:
    """``cvt.rn.satfinite``: what is larger than the largest number, infinity too, becomes that."""
    kind = np.dtype(getattr(ml_dtypes, dtype.numpy))
    most = np.float32(ml_dtypes.finfo(kind).max)
    bits = data.clip(-most, most).astype(kind).view(np.uint8)
    return np.where(np.isnan(data), np.uint8(0x7F), bits)


def _no_arithmetic(dtype: DType, *more: DType) -> UnsupportedError:
    known = ", ".join(d.value for d in (DType.BF16, DType.F16, DType.F32, *more))
    return UnsupportedError(f"arithmetic on {dtype.value} on the machine", known)


def _bits(a: Array, b: Array, op: Callable[[Array, Array], Array]) -> Array:
    """A bitwise operation of two arrays of float32."""
    pair = (np.ascontiguousarray(x, np.float32).view(np.uint32) for x in np.broadcast_arrays(a, b))
    return op(*pair).view(np.float32)


def greater(a: Array, b: Array) -> Array:
    """``max.NaN.f32``: NaN if either is, +0 rather than -0."""
    return np.where(a == b, _bits(a, b, np.bitwise_and), np.maximum(a, b))


def less(a: Array, b: Array) -> Array:
    """``min.NaN.f32``: NaN if either is, -0 rather than +0."""
    return np.where(a == b, _bits(a, b, np.bitwise_or), np.minimum(a, b))
