"""nvFuser's matmuls, and those with words of wsched's own, as torch functions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.importer.input_error import is_fake

__all__ = ["along_k", "grouped_mm", "linear", "matmul"]


def matmul(x: Any, w: Any, *, dtype: Any = None) -> Any:
    """``x · w``, of 16 bits and more; with a dtype summed and given in that."""
    import torch

    return torch.matmul(_as(_wide(x), dtype), _as(_wide(w), dtype))


def linear(
    x: Any, w: Any, bias: Any = None, *, scale_b: Any = None, zero_b: Any = None,
    group: int | None = None, dtype: Any = None,
) -> Any:  # fmt: skip
    """``x · wᵀ + bias``; with scales of groups, [N, K / group], of ``w - zero_b`` times these; with
    a dtype summed and given in that.

    Raises:
        UnsupportedError: scales without the size of their groups, or a size, or zero points,
            without scales.
    """
    import torch

    said = {"group": group, "zero_b": zero_b, "scale_b": scale_b}
    found = [name for name, v in said.items() if v is not None]
    if not found:
        operands = (_as(v, dtype) for v in (_wide(x), _wide(w), bias))
        return torch.nn.functional.linear(*operands)
    if scale_b is None or group is None:
        one = f"{found[0]} without scale_b" if scale_b is None else "scale_b without group"
        raise UnsupportedError(f"a linear with {one}", "both or none")
    k = w.shape[1]
    if zero_b is not None:
        w = (_wide(w).float() - along_k(zero_b, group, k)).to(w.dtype)
    scaled = _wide(w).float() * along_k(scale_b, group, k)
    added = None if bias is None else bias.float()
    return torch.nn.functional.linear(_wide(x).float(), scaled, added).to(dtype or x.dtype)


def along_k(numbers: Any, group: int, k: int) -> Any:
    """The numbers of groups, [N, K / group], of each element, [N, K]; the last group may be less
    than one.
    """
    return numbers.repeat_interleave(group, 1)[:, :k]


def grouped_mm(mat1: Any, mat2: Any, offsets: Any, bias: Any = None, *, dtype: Any = None) -> Any:
    """The product of each group, and a row for each group of rows added; on a CPU one by one.

    With a dtype given in that; torch's own kernel has rounded it before. Of tensors without values
    the shape alone, which does not depend on where groups end.
    """
    import torch

    if bias is not None and bias.dim() != 2:  # a row for each group, else a number for each
        raise ValueError(f"a bias of {bias.dim()} dimensions, which has a row for each group")
    if mat1.device.type == "meta" or is_fake(offsets):
        return _as(_of_groups(mat1, mat2, offsets), dtype)
    begins = [0, *offsets.tolist()] if mat1.device.type == "cpu" or bias is not None else []
    if not begins:
        return _as(torch._grouped_mm(mat1, mat2, offs=offsets), dtype)
    ranks = mat1.dim(), mat2.dim()
    groups = [len(begins) - 1] * (ranks == (2, 2))
    result = mat1.new_zeros(*groups, mat1.shape[-2], mat2.shape[-1], dtype=dtype)
    for g, (a, b) in enumerate(pairwise(begins)):
        if ranks == (2, 3):
            left, right, out = mat1[a:b], mat2[g], result[a:b]
        elif ranks == (3, 2):
            left, right, out = mat1[g], mat2[:, a:b], result[:, a:b]
        else:
            left, right, out = mat1[:, a:b], mat2[a:b], result[g]
        made = left.float() @ right.float()
        out.copy_(made if bias is None else made + bias[g].float())
    return result


def _wide(x: Any) -> Any:
    """An operand of a matmul.

    Raises:
        UnsupportedError: it has 8 bits, of which torch's matmul makes 8 again, or nothing.
    """
    if x.element_size() == 1:
        raise UnsupportedError(f"a matmul of {x.dtype} by torch", "16 bits and more")
    return x


def _as(x: Any, dtype: Any) -> Any:
    """A tensor in a type, if there is one of both."""
    return x if x is None or dtype is None else x.to(dtype)


def _of_groups(mat1: Any, mat2: Any, offsets: Any) -> Any:
    """The shape of the product, or why there is none; torch's own says so of more, of fp16 and of
    rows that are not a multiple of 16 bytes.
    """
    groups, matrices = offsets.shape[0], [t.shape[0] for t in (mat1, mat2) if t.dim() == 3]
    if matrices not in ([], [groups]):
        raise ValueError(f"matrices of {matrices[0]} groups, offsets of {groups}")
    left, right = (t.new_empty(t.shape[-2:]) for t in (mat1, mat2))
    product = left @ right
    return product if matrices else product.new_empty((groups, *product.shape))
