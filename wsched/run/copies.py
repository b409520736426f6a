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

from lowering.target.hopper import TMA_STRIDE_ALIGN
from wsched.fusion import Fusion, TensorBinding

if TYPE_CHECKING:
    import torch

__all__ = [
    "Copy", "copied", "copies", "copies_us", "direct_us", "slower_than_direct", "tma_reads",
]  # fmt: skip

COPY_US, COPY_BYTES_PER_US = 5.0, 1.75e6
"""What a copy takes on the GPU: its start, and bytes read and written in a microsecond. (Rows at
multiples of 16 bytes are copied at 4.3e6.) All constants here: ``python -m wsched.bench.unaligned``
on an H200, design/performance.md."""

DIRECT_US, DIRECT_TFLOPS, DIRECT_BYTES_PER_US = 8.0, 130.0, 1.2e6
"""What cuBLAS takes on the GPU for operands with an odd row stride: its start, 10^12 operations in
a second, and bytes of operands in a microsecond where they are what takes the time."""

CALL_HOST_US, COPY_HOST_US = 8.0, 7.0
"""What the host takes for a call of a kernel and for each copy in front of it. The GPU waits for
the host where that is longer."""

PACK_HOST_US = 125.0
"""And for a call that cannot be packed once for all, because the kernel reads what each call makes
anew: 150 us where a packed call takes 9.5 (2-core x86 machine, a driver that does nothing)."""

NVFUSER_HOST_US = {False: 19.5, True: 25.0}
"""And for nvFuser's ``execute``, by whether there is an epilogue, a kernel of its own there."""


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


def copies_us(needed: Sequence[Copy]) -> float:
    """What copies take on the GPU."""
    return sum(COPY_US + c.bytes / COPY_BYTES_PER_US for c in needed)


def direct_us(m: int, n: int, k: int) -> float:
    """What cuBLAS takes on the GPU for 16-bit operands that TMA cannot read."""
    flops_us = 2 * m * n * k / (DIRECT_TFLOPS * 1e6)
    bytes_us = 2 * (m * k + n * k) / DIRECT_BYTES_PER_US
    return DIRECT_US + max(flops_us, bytes_us)


def slower_than_direct(
    needed: Sequence[Copy], m: int, n: int, k: int, kernel_us: float, epilogue: bool = False
) -> str:
    """Why copies and the kernel are expected to take longer than nvFuser, which copies nothing.

    Args:
        needed: the copies.
        m: rows of A.
        n: rows of B.
        k: columns of both, which have 16-bit elements.
        kernel_us: predicted time of wsched's kernel.
        epilogue: whether something is computed from the product.

    Returns:
        The reason, or nothing if the copies pay.
    """
    if not needed:
        return ""
    wsched_us = max(CALL_HOST_US + COPY_HOST_US * len(needed), copies_us(needed) + kernel_us)
    other_us = max(NVFUSER_HOST_US[epilogue], direct_us(m, n, k))
    if wsched_us <= other_us:
        return ""
    which = ", ".join(f"{c.argument} ({c.reason})" for c in needed)
    return (
        f"a copy of {which} and the kernel are predicted to take {wsched_us:.1f} us, the "
        f"matmul of the operands as they lie {other_us:.1f} us"
    )
