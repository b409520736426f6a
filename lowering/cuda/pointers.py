"""Addresses and strides of torch tensors that a kernel's threads access themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowering.cuda.tensormap import MAX_ELEMENTS
from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import GlobalTensor

if TYPE_CHECKING:
    import torch

__all__ = ["pointer_of"]


def pointer_of(g: GlobalTensor, tensor: torch.Tensor) -> tuple[int, int]:
    """Device address of a 2-D tensor, and elements from row to row.

    The stride of a dimension of extent 1 means nothing. Rows may be repeated (stride 0).

    Raises:
        UnsupportedError: not a 2-D CUDA tensor of ``g``'s type, columns not contiguous, 2**31
            elements and more, or address, stride or row length not aligned as ``g`` promises.
    """
    if tensor.dim() != 2 or str(tensor.dtype) != f"torch.{g.dtype.torch}" or not tensor.is_cuda:
        what = f"{tensor.dim()}-D {tensor.dtype} on {tensor.device}"
        raise UnsupportedError(f"{g.name}: {what}", f"a 2-D CUDA tensor of torch.{g.dtype.torch}")
    (rows, cols), (row, col) = tensor.shape, tensor.stride()
    if rows * cols >= MAX_ELEMENTS:
        raise UnsupportedError(f"{g.name}: {rows} x {cols} elements", "fewer than 2**31 elements")
    if col != 1 and cols > 1:
        raise UnsupportedError(
            f"{g.name}: stride {col} between columns", "contiguous columns (stride 1)"
        )
    stride = row if rows > 1 else 0
    size = g.dtype.bytes
    address = tensor.data_ptr()
    places = {"an address": address, "a stride": stride * size, "a row length": cols * size}
    for what, value in places.items():
        if value % g.align:
            raise UnsupportedError(
                f"{g.name}: {what} of {value} bytes", f"multiples of {g.align} bytes"
            )
    return address, stride
