"""Weights in rows that TMA reads, made once by who knows that they do not change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowering.ground.errors import UnsupportedError
from wsched.importer.input_error import require_tensor
from wsched.run.copies import COPIED_ROWS, tma_reads
from wsched.run.row_copy import copy_rows

if TYPE_CHECKING:
    import torch

__all__ = ["aligned_rows"]


def aligned_rows(tensor: torch.Tensor) -> torch.Tensor:
    """The same values where kernels read them without a copy in front of each launch.

    Args:
        tensor: an operand of two dimensions, or a batch of three; either of the last two may be
            the contiguous one.

    Returns:
        The tensor itself if TMA reads it as it lies. Else a new one of the same shape and order of
        memory, in rows of a multiple of 128 bytes, which later changes of ``tensor`` do not reach.

    Raises:
        InputError: no tensor, or none of torch's arrays.
        UnsupportedError: other than two or three dimensions.
    """
    import torch

    require_tensor("tensor", tensor)
    if tensor.dim() not in (2, 3):
        raise UnsupportedError(f"rows of a tensor of {tensor.dim()} dimensions", "2 or 3")
    rows, cols = tensor.dim() - 2, tensor.dim() - 1
    if tma_reads(tensor, cols) or tma_reads(tensor, rows):
        return tensor
    by_columns = tensor.stride(rows) == 1 and tensor.stride(cols) != 1
    found = tensor.mT if by_columns else tensor
    step = COPIED_ROWS // tensor.element_size()
    *outer, length = found.shape
    pitch = -(-length // step) * step
    memory = torch.empty((*outer, pitch), dtype=tensor.dtype, device=tensor.device)
    made = copy_rows(memory[..., :length], found)
    return made.mT if by_columns else made
