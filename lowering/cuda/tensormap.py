"""TMA descriptors of torch tensors: what is checked, and how the driver is asked for one."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import TensorMap
from lowering.target.hopper import TMA_STRIDE_ALIGN

if TYPE_CHECKING:
    import torch

__all__ = ["MAP_BYTES", "MAX_ELEMENTS", "Layout", "encode", "layout_of"]

MAP_BYTES = 128
"""Size of a descriptor (CUtensorMap)."""

MAX_ELEMENTS = 1 << 31
"""Index arithmetic in the kernels is 32-bit."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a matrix lies: device address, rows and columns, bytes from row to row."""

    address: int
    rows: int
    cols: int
    stride: int


def layout_of(name: str, dtype: DType, tensor: torch.Tensor) -> Layout:
    """The layout of a 2-D tensor, as TMA wants it.

    The stride between rows means nothing where there is one row, or nothing in a row, and is
    replaced by a legal one.

    Raises:
        UnsupportedError: not a 2-D CUDA tensor of ``dtype``, columns not contiguous, rows or base
            not aligned to 16 bytes, or 2**31 elements and more.
    """
    if tensor.dim() != 2 or str(tensor.dtype) != f"torch.{dtype.torch}" or not tensor.is_cuda:
        what = f"{tensor.dim()}-D {tensor.dtype} on {tensor.device}"
        raise UnsupportedError(f"{name}: {what}", f"a 2-D CUDA tensor of torch.{dtype.torch}")
    (rows, cols), (row, col) = tensor.shape, tensor.stride()
    if rows * cols >= MAX_ELEMENTS:
        raise UnsupportedError(f"{name}: {rows} x {cols} elements", "fewer than 2**31 elements")
    if col != 1 and cols > 1:
        raise UnsupportedError(
            f"{name}: stride {col} between columns", "contiguous columns (stride 1)"
        )
    stride = row * dtype.bytes
    if rows <= 1 or cols == 0:
        stride = -(-max(cols, 1) * dtype.bytes // TMA_STRIDE_ALIGN) * TMA_STRIDE_ALIGN
    elif stride % TMA_STRIDE_ALIGN or stride <= 0:
        raise UnsupportedError(
            f"{name}: {stride} bytes from row to row", f"multiples of {TMA_STRIDE_ALIGN} bytes"
        )
    address = tensor.data_ptr()
    if address % TMA_STRIDE_ALIGN:
        raise UnsupportedError(
            f"{name}: a base address of {address:#x}", f"multiples of {TMA_STRIDE_ALIGN} bytes"
        )
    return Layout(address, rows, cols, stride)


def encode(driver: Any, m: TensorMap, layout: Layout) -> bytes:
    """The 128 bytes of the descriptor (``cuTensorMapEncodeTiled``); dimensions innermost first.

    An empty matrix is described as one element: the kernel issues no copy for it. The box of a
    clipped map has no more rows than the matrix; the kernel computes the same number.

    Raises:
        InternalError: the driver refuses it.
    """
    if m.box == (0, 0):
        raise InternalError("launch", f"tensor map {m.name} has no box")
    swizzle = "NONE" if m.swizzle is Swizzle.NONE else f"{m.swizzle.value}B"
    dims = [driver.cuuint64_t(max(n, 1)) for n in (layout.cols, layout.rows)]
    box = [driver.cuuint32_t(n) for n in reversed(m.box_of(layout.rows))]
    prefix = "CU_TENSOR_MAP"
    status, descriptor = driver.cuTensorMapEncodeTiled(
        getattr(driver.CUtensorMapDataType, f"{prefix}_DATA_TYPE_{m.dtype.driver}"),
        2,
        layout.address,
        dims,
        [driver.cuuint64_t(layout.stride)],
        box,
        [driver.cuuint32_t(1), driver.cuuint32_t(1)],
        getattr(driver.CUtensorMapInterleave, f"{prefix}_INTERLEAVE_NONE"),
        getattr(driver.CUtensorMapSwizzle, f"{prefix}_SWIZZLE_{swizzle}"),
        getattr(driver.CUtensorMapL2promotion, f"{prefix}_L2_PROMOTION_L2_256B"),
        getattr(driver.CUtensorMapFloatOOBfill, f"{prefix}_FLOAT_OOB_FILL_NONE"),
    )
    if status != driver.CUresult.CUDA_SUCCESS:
        raise InternalError("launch", f"tensor map {m.name} of {layout}: {status.name}")
    return ctypes.string_at(descriptor.getPtr(), MAP_BYTES)
