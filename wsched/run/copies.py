"""Operands that TMA cannot address where they lie: copied in front of each launch.

TMA wants one dimension contiguous, the other a multiple of 16 bytes apart, and such a base. Any
other operand (an odd K, a slice that starts at an odd element, every second column, an expanded
one) is copied into rows of a multiple of 16 bytes; whether that pays: ``wsched.choose.copy_cost``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lowering.target.ptx import TMA_STRIDE_ALIGN
from wsched.choose.copy_cost import Copy
from wsched.fusion import Fusion, TensorBinding

if TYPE_CHECKING:
    import torch

__all__ = ["copied", "copies", "tma_reads"]


def tma_reads(tensor: torch.Tensor, rows: int, cols: int) -> bool:
    """Whether TMA can read a matrix where it lies, dimension ``rows`` by dimension ``cols``."""
    return not _obstacle(tensor, rows, cols)


def _obstacle(tensor: torch.Tensor, rows: int, cols: int) -> str:
    """What TMA cannot do about a matrix; empty if it can read it.

    Strides of dimensions of size 1 and of empty tensors mean nothing.
    """
    if 0 in tensor.shape:
        return ""
    if tensor.stride(cols) != 1 and tensor.shape[cols] > 1:
        return f"stride {tensor.stride(cols)} between neighbours"
    row_bytes = tensor.stride(rows) * tensor.element_size()
    if tensor.shape[rows] > 1 and (row_bytes <= 0 or row_bytes % TMA_STRIDE_ALIGN):
        return f"{row_bytes} bytes from row to row, no positive multiple of {TMA_STRIDE_ALIGN}"
    if past := tensor.data_ptr() % TMA_STRIDE_ALIGN:
        return f"it starts {past} bytes past a multiple of {TMA_STRIDE_ALIGN}"
    return ""


def copies(fusion: Fusion, inputs: Sequence[Any]) -> tuple[Copy, ...]:
    """The operands that a kernel of ``fusion`` needs copies of."""
    found = []
    for position, (binding, tensor) in enumerate(zip(fusion.inputs, inputs, strict=False)):
        if _is_operand(binding, tensor) and _unreadable(tensor):
            rows, cols = _order(fusion, binding)
            pitch = _pitch(tensor, cols)
            written = tensor.shape[rows] * pitch * tensor.element_size()
            read = tensor.shape[rows] * tensor.shape[cols] * tensor.element_size()
            reason = _obstacle(tensor, rows, cols)
            found.append(Copy(f"input {position}", reason, read + written))
    return tuple(found)


def copied(fusion: Fusion, inputs: Sequence[Any]) -> Sequence[Any]:
    """The inputs, with a copy in place of each operand that TMA cannot read in either order.

    The very same sequence if there is none. What is no tensor, or has another rank, stays as it is
    for :func:`wsched.run.arguments.bind` to refuse.
    """
    replaced: list[Any] | None = None
    for position, (binding, tensor) in enumerate(zip(fusion.inputs, inputs, strict=False)):
        if _is_operand(binding, tensor) and _unreadable(tensor):
            replaced = list(inputs) if replaced is None else replaced
            replaced[position] = _aligned(tensor, *_order(fusion, binding))
    return inputs if replaced is None else replaced


def _is_operand(binding: TensorBinding, tensor: Any) -> bool:
    return "K" in binding.axes and hasattr(tensor, "data_ptr") and tensor.dim() == 2


def _unreadable(tensor: torch.Tensor) -> bool:
    return not tma_reads(tensor, 0, 1) and not tma_reads(tensor, 1, 0)


def _order(fusion: Fusion, binding: TensorBinding) -> tuple[int, int]:
    """Which dimensions of the caller's tensor the kernel takes for rows and columns."""
    rows, cols = (str(d.extent) for d in fusion.tensor(binding.tensor).in_memory)
    return binding.axes.index(rows), binding.axes.index(cols)


def _pitch(tensor: torch.Tensor, cols: int) -> int:
    """Elements from row to row of the copy."""
    step = TMA_STRIDE_ALIGN // tensor.element_size()
    pitch: int = -(-tensor.shape[cols] // step) * step
    return pitch


def _aligned(tensor: torch.Tensor, rows: int, cols: int) -> torch.Tensor:
    import torch

    strides = [1, 1]
    strides[rows] = _pitch(tensor, cols)
    copy = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)
