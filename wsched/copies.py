"""Operands that TMA cannot address where they lie: copied in front of each launch, or not at all.

TMA wants one dimension contiguous, the other a multiple of 16 bytes apart, and such a base. Any
other operand (an odd K, a slice that starts at an odd element, every second column, an expanded
one) is copied into rows of a multiple of 16 bytes. That costs a pass over it, so where the operand
is large and the matmul small another way may be faster; ``slower_than_direct`` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowering.hopper import TMA_STRIDE_ALIGN
from wsched.fusion import Fusion, TensorBinding

if TYPE_CHECKING:
    import torch

__all__ = ["Copy", "copied", "copies", "slower_than_direct", "tma_reads"]

COPY_BYTES_PER_US = 2.5e6
"""Bytes read and written by a copy in a microsecond. An H200 copies aligned rows at 4.3e6; rows at
odd addresses take longer (``python -m tests.gpu.unaligned``, design/performance.md)."""

COPY_US = 2.5
"""Least time of a copy: its launch."""

DIRECT_TFLOPS = 400.0
"""What cuBLAS reaches on operands with an odd row stride (same measurement)."""

DIRECT_BYTES_PER_US = 2.5e6
"""And how fast it reads operands, where they are what takes the time."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of an operand.

    Args:
        argument: which input.
        reason: why TMA cannot address it where it lies.
        bytes: read and written by the copy.
    """

    argument: str
    reason: str
    bytes: int


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
    for :func:`wsched.arguments.bind` to refuse.
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

    shape = (tensor.shape[rows], _pitch(tensor, cols))
    buffer = torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
    view = buffer[:, : tensor.shape[cols]]
    view = view if (rows, cols) == (0, 1) else view.T
    view.copy_(tensor)
    return view


def slower_than_direct(needed: Sequence[Copy], m: int, n: int, k: int, kernel_us: float) -> str:
    """Why copies and the kernel are expected to take longer than a matmul of operands as they lie.

    Args:
        needed: the copies.
        m: rows of A.
        n: rows of B.
        k: columns of both, which have 16-bit elements.
        kernel_us: predicted time of wsched's kernel.

    Returns:
        The reason, or nothing if the copies pay.
    """
    if not needed:
        return ""
    copy_us = sum(COPY_US + c.bytes / COPY_BYTES_PER_US for c in needed)
    flops_us = 2 * m * n * k / (DIRECT_TFLOPS * 1e6)
    direct_us = max(flops_us, 2 * (m * k + n * k) / DIRECT_BYTES_PER_US) + COPY_US
    if copy_us + kernel_us <= direct_us:
        return ""
    which = ", ".join(f"{c.argument} ({c.reason})" for c in needed)
    return (
        f"a copy of {which} and the kernel are predicted to take {copy_us + kernel_us:.1f} us, the "
        f"matmul of the operands as they lie {direct_us:.1f} us"
    )
