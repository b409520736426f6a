"""Results that threads store themselves, as rows by columns of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowering.ground.errors import UnsupportedError
from lowering.kernel.tensors import WIDEST_ACCESS
from wsched.fusion import Fusion, TensorBinding
from wsched.run.arguments import ONE, columns_at_once, in_memory
from wsched.run.copies import thread_bytes

if TYPE_CHECKING:
    import torch

__all__ = ["stored_matrix"]


def stored_matrix(
    fusion: Fusion, binding: TensorBinding, tensor: torch.Tensor, what: str, vector: int
) -> torch.Tensor:
    """A result that threads store themselves, as rows by columns of the kernel.

    Raises:
        UnsupportedError: its columns are not next to each other, its rows overlap, or pairs of
            columns cannot be written at once where the kernel does so.
    """
    order = in_memory(fusion, binding)
    if order != list(binding.axes):
        tensor = tensor.permute([binding.axes.index(name) for name in order])
    if 0 in tensor.shape:
        return _one_of_batch(fusion, binding, tensor)
    if fusion.reduction(binding.tensor) is not None:
        return tensor
    (*_, rows, cols), row = tensor.shape, tensor.stride(-2)
    if (found := columns_at_once(tensor)) == 0 or _overlaps(tensor):
        strides = ", ".join(map(str, tensor.stride()))
        raise UnsupportedError(
            f"{what} with strides [{strides}] for {rows} rows of {cols} elements",
            "rows one after the other, of elements next to each other",
        )
    if binding.added is not None and vector > 1 and thread_bytes(tensor) < WIDEST_ACCESS:
        what = f"{what}, to whose rows of {cols} elements {WIDEST_ACCESS} bytes are added at once"
        raise UnsupportedError(what, f"rows of multiples of {WIDEST_ACCESS} bytes", ONE)
    if found < vector:
        raise UnsupportedError(
            f"{what} with {cols} columns, {row} elements from row to row and a start "
            f"{tensor.data_ptr() % (2 * tensor.element_size())} bytes past a multiple of two "
            "elements, stored two at once,",
            "multiples of two elements",
            ONE,
        )
    return _one_of_batch(fusion, binding, tensor)


def _one_of_batch(fusion: Fusion, binding: TensorBinding, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in the order of memory with the dimension that counts groups, where it has all
    groups in another one: threads see it as the only one of a batch.
    """
    if fusion.groups is None or not fusion.ragged(binding.tensor):
        return tensor
    names = [str(d.extent) for d in fusion.tensor(binding.tensor).in_memory]
    return tensor.unsqueeze(names.index(fusion.groups.axis))


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether dimensions do not lie one outside the other in memory, so that elements may meet."""
    span = 1
    for n, step in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if n > 1:
            if step < span:
                return True
            span += step * (n - 1)
    return False
