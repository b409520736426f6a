"""Inputs that no expression reads, as a kernel sees them: ends of groups, numbers of rows, and what
rows are added to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsched.fusion import Fusion, TensorBinding
from wsched.fusion.names import ROWS

if TYPE_CHECKING:
    import torch

__all__ = ["beside"]


def beside(fusion: Fusion, binding: TensorBinding, tensor: torch.Tensor) -> torch.Tensor:
    """An input of :attr:`~wsched.fusion.Fusion.beside` as the kernel reads it.

    Numbers of rows are a column beside the result; of two words the lower one, which is the first.
    Ends are as they are, and what rows are added to is found in the result.
    """
    import torch

    if binding.tensor not in {a.rows for a in fusion.added.values()}:
        return tensor
    if tensor.dtype is torch.int64:
        tensor = tensor.contiguous().view(torch.int32)[::2]
    along = [axis == ROWS for axis in fusion.result_axes]
    return tensor.as_strided(
        [len(tensor) if rows else 1 for rows in along],
        [tensor.stride(0) if rows else 1 for rows in along],
    )
