"""Addresses and strides of torch tensors that a kernel's threads access themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowering.cuda.tensormap import require_extents
from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import GlobalTensor

if TYPE_CHECKING:
    import torch

__all__ = ["pointer_of"]


def pointer_of(g: GlobalTensor, tensor: torch.Tensor) -> tuple[int, ...]:
    """Device address of a tensor, and the strides of all dimensions but the last, in elements.

    The stride of a dimension of extent 1 means nothing. A stride may be 0, which repeats it.

    Raises:
        UnsupportedError: not a CUDA tensor of ``g``'s rank and type, columns not contiguous, 2**31
            elements and more along a dimension, or address, stride or row length not aligned as
            ``g`` promises.
    """
    wanted = f"torch.{g.dtype.torch}"
    if tensor.dim() != g.rank or str(tensor.dtype) != wanted or not tensor.is_cuda:
        what = f"{tensor.dim()}-D {tensor.dtype} on {tensor.device}"
        raise UnsupportedError(f"{g.name}: {what}", f"a {g.rank}-D CUDA tensor of {wanted}")
    *outer, cols = tensor.shape
    *steps, col = tensor.stride()
    require_extents(g.name, tensor.shape)
    if col != 1 and cols > 1:
        raise UnsupportedError(
            f"{g.name}: stride {col} between columns", "contiguous columns (stride 1)"
        )
    strides = [step if extent > 1 else 0 for extent, step in zip(outer, steps, strict=True)]
    size = g.dtype.bytes
    address = tensor.data_ptr()
    places = [("an address", address), *(("a stride", n * size) for n in strides)]
    for what, value in (*places, ("a row length", cols * size)):
        if value % g.align:
            raise UnsupportedError(
                f"{g.name}: {what} of {value} bytes", f"multiples of {g.align} bytes"
            )
    return address, *strides
