"""TMA descriptors of torch tensors: what is checked, and how the driver is asked for one."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import I32_MAX
from lowering.kernel.kernel import TensorMap
from lowering.kernel.tensors import Ragged
from lowering.target.ptx import TMA_STRIDE_ALIGN

if TYPE_CHECKING:
    import torch

__all__ = ["MAP_BYTES", "Layout", "encode", "layout_of", "require_extents"]

MAP_BYTES = 128
"""Size of a descriptor (CUtensorMap)."""

_STRIDE_END = 1 << 40
"""A descriptor has strides of fewer bytes (CUDA driver API, cuTensorMapEncodeTiled)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a tensor lies: device address, extents, and bytes from one element to the next of each
    dimension but the last, which is contiguous; outermost first.
    """

    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def require_extents(name: str, sizes: Sequence[int]) -> None:
    """Refuse a tensor with a dimension that an i32 cannot count; addresses have 64 bits.

    Raises:
        UnsupportedError: 2**31 elements and more along a dimension.
    """
    if max(sizes, default=0) > I32_MAX:
        what = f"{name}: {' x '.join(map(str, sizes))} elements"
        raise UnsupportedError(what, f"at most {I32_MAX} along each dimension")


def layout_of(m: TensorMap, tensor: torch.Tensor) -> Layout:
    """The layout of a tensor, as TMA wants it.

    The stride of a dimension of one element, and any stride of an empty tensor, means nothing and
    is replaced by a legal one.

    Raises:
        UnsupportedError: not a CUDA tensor of the rank and type of ``m``, columns not contiguous, a
            stride or the base not aligned to 16 bytes, 2**31 elements and more along a dimension,
            or strides of 2**40 bytes and more.
    """
    name, wanted = m.name, f"torch.{m.dtype.torch}"
    rank = len(m.behind)
    if tensor.dim() != rank or str(tensor.dtype) != wanted or not tensor.is_cuda:
        what = f"{tensor.dim()}-D {tensor.dtype} on {tensor.device}"
        raise UnsupportedError(f"{name}: {what}", f"a {rank}-D CUDA tensor of {wanted}")
    *outer, col = tensor.stride()
    width, sizes = m.dtype.stored.bytes, tuple(tensor.shape)
    if m.dtype.packed > 1:  # words of whole bytes
        m, sizes = m.in_bytes, (*sizes[:-1], sizes[-1] * width)
    require_extents(name, sizes)
    if col != 1 and sizes[-1] > 1:
        raise UnsupportedError(
            f"{name}: stride {col} between columns", "contiguous columns (stride 1)"
        )
    address = tensor.data_ptr()
    strides = _strides(m, sizes, [n * width for n in outer])
    if address % TMA_STRIDE_ALIGN:
        raise UnsupportedError(
            f"{name}: a base address of {address:#x}", f"multiples of {TMA_STRIDE_ALIGN} bytes"
        )
    found = Layout(address, sizes, strides)
    return _ragged(found, m.ragged) if m.ragged else found


def _ragged(matrix: Layout, by: Ragged) -> Layout:
    """The layout of a ragged map over a matrix: both outer dimensions step from row to row.

    By ends, element [rows, 0, 0] is the matrix's first one. What lies in front of it is never
    stored to, and need not be mapped; a load may fault where the map's own address is not. By
    begins, element [0, 0, 0] is.
    """
    (rows, cols), (row,) = matrix.sizes, matrix.strides
    front = rows * row if by is Ragged.END else 0
    return Layout(matrix.address - front, (rows + 1, rows, cols), (row, row))


def _strides(m: TensorMap, sizes: tuple[int, ...], strides: list[int]) -> tuple[int, ...]:
    """Bytes from one element to the next of each dimension, innermost legal ones where they mean
    nothing.
    """
    dense = max(sizes[-1], 1) * m.dtype.bytes
    found: list[int] = []
    for d in reversed(range(len(sizes) - 1)):
        stride = strides[d]
        if sizes[d] <= 1 or 0 in sizes:
            stride = -(-dense // TMA_STRIDE_ALIGN) * TMA_STRIDE_ALIGN
        elif stride % TMA_STRIDE_ALIGN or not 0 < stride < _STRIDE_END:
            where = "from row to row" if d == len(sizes) - 2 else f"along dimension {d}"
            legal = f"multiples of {TMA_STRIDE_ALIGN} bytes"
            if stride >= _STRIDE_END:
                legal += " below 2**40"
            raise UnsupportedError(f"{m.name}: {stride} bytes {where}", legal)
        found.append(stride)
        dense = stride * max(sizes[d], 1)
    return tuple(reversed(found))


def encode(driver: Any, m: TensorMap, layout: Layout) -> bytes:
    """The 128 bytes of the descriptor (``cuTensorMapEncodeTiled``); dimensions innermost first.

    An empty dimension is described as one element: the kernel copies none of it. The box of a
    clipped map has no more rows than the tensor; the kernel computes the same number.

    Raises:
        InternalError: the driver refuses it.
    """
    m = m.in_bytes
    if not m.box:
        raise InternalError("launch", f"tensor map {m.name} has no box")
    swizzle = f"{m.swizzle.value}B" if m.swizzle.permutes else "NONE"
    promotion = f"L2_{m.promotion}B" if m.promotion else "NONE"
    dims = [driver.cuuint64_t(max(n, 1)) for n in reversed(layout.sizes)]
    box = [driver.cuuint32_t(n) for n in reversed(m.box_of(layout.sizes))]
    prefix = "CU_TENSOR_MAP"
    status, descriptor = driver.cuTensorMapEncodeTiled(
        getattr(driver.CUtensorMapDataType, f"{prefix}_DATA_TYPE_{m.dtype.driver}"),
        m.rank,
        layout.address,
        dims,
        [driver.cuuint64_t(n) for n in reversed(layout.strides)],
        box,
        [driver.cuuint32_t(1) for _ in box],
        getattr(driver.CUtensorMapInterleave, f"{prefix}_INTERLEAVE_NONE"),
        getattr(driver.CUtensorMapSwizzle, f"{prefix}_SWIZZLE_{swizzle}"),
        getattr(driver.CUtensorMapL2promotion, f"{prefix}_L2_PROMOTION_{promotion}"),
        getattr(driver.CUtensorMapFloatOOBfill, f"{prefix}_FLOAT_OOB_FILL_NONE"),
    )
    if status != driver.CUresult.CUDA_SUCCESS:
        raise InternalError("launch", f"tensor map {m.name} of {layout}: {status.name}")
    return ctypes.string_at(descriptor.getPtr(), MAP_BYTES)
