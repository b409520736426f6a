"""nvFuser's operations as torch functions, by name.

Texts of nvFuser cast in front of what computes in fp32. One written by hand need not: 16-bit floats
are widened where nvFuser casts them (``PROMOTED``); other operations keep their argument's type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, reduce
from itertools import pairwise
from typing import Any

from lowering.ground.errors import UnsupportedError

__all__ = ["PROMOTED", "operations"]

Dims = int | Sequence[int] | None

_PROMOTED = (
    "acos acosh add addcmul asin asinh atan atan2 atanh cos cosh div erf erfc erfinv exp exp2 "
    "expm1 fmod lerp lgamma log log10 log1p log2 maximum minimum mod mul neg pow "
    "reciprocal remainder rsqrt sigmoid sin sinh sqrt sub tan tanh truediv"
)

PROMOTED = frozenset(_PROMOTED.split())
"""Operations for which nvFuser casts bf16 and fp16 to fp32, and whose result is fp32."""

_SAME = (
    "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not "
    "bitwise_or bitwise_right_shift bitwise_xor ceil complex cos cosh eq erf erfc erfinv exp exp2 "
    "expm1 floor fmod frac gcd ge gt imag isfinite isinf isnan isneginf isposinf isreal le lerp "
    "lgamma log log10 log1p log2 logical_and logical_not logical_or lt maximum minimum mul "
    "ne neg nextafter pow real reciprocal relu remainder round rsqrt sigmoid sign signbit sin sinh "
    "sqrt sub tan tanh trunc"
)
"""Operations that torch has under the same name, with the same positional arguments."""


@cache
def operations() -> dict[str, Callable[..., Any]]:
    """Every operation that can be interpreted; keyword names are those that nvFuser prints."""
    import torch

    table: dict[str, Callable[..., Any]] = {name: getattr(torch, name) for name in _SAME.split()}
    functional = torch.nn.functional
    table |= {
        "addcmul": lambda a, b, c, value=1: a + value * b * c,
        "clamp": lambda x, low, high: torch.clamp(x, low, high),
        "cumsum": lambda x, dim: torch.cumsum(x, dim),
        "cumprod": lambda x, dim: torch.cumprod(x, dim),
        "matmul": lambda x, w: torch.matmul(wide(x), wide(w)),
        "grouped_mm": grouped_mm,
        "mod": torch.fmod,
        "silu": functional.silu,
        "threshold": lambda x, limit, value: torch.where(x <= limit, value, x),
        "truediv": torch.true_divide,
        "where": torch.where,
    }
    named = (
        argsort, broadcast, broadcast_in_dim, cast, cat, div, expand, full, gather, index_select,
        iota, linear, logical_right_shift, pad, permute, reshape, select, shape, size, slice_,
        squeeze, stride_order, take_along_axis, topk, triu, var, var_mean, welford,
    )  # fmt: skip
    table |= {f.__name__.rstrip("_"): f for f in named}
    table |= {"set": torch.clone, "sum": _reduction(_sum), "prod": _reduction(_prod)}
    table |= {
        "max": _reduction(_extremum(torch.amax)),
        "min": _reduction(_extremum(torch.amin)),
    }
    return table


# --- arithmetic ----------------------------------------------------------------------------------


def wide(x: Any) -> Any:
    """An operand of a matmul.

    Raises:
        UnsupportedError: it has 8 bits, of which torch's matmul makes 8 again, or nothing.
    """
    if x.element_size() == 1:
        raise UnsupportedError(f"a matmul of {x.dtype} by torch", "16 bits and more")
    return x


def cast(x: Any, dtype: Any) -> Any:
    """A tensor of another type; a number as the Python number of that type.

    Of floats of 8 bits the largest one is what larger values become, as nvFuser casts; torch has
    NaN or infinity for them.
    """
    import torch

    if isinstance(x, torch.Tensor):
        if dtype in (torch.float8_e4m3fn, torch.float8_e5m2) and x.dtype is not dtype:
            most = torch.finfo(dtype).max
            x = (x.float() if x.dtype.itemsize == 1 else x).clamp(-most, most)
        return x.to(dtype)
    if dtype.is_floating_point:
        return float(x)
    return bool(x) if dtype is torch.bool else int(x)


def div(x: Any, y: Any) -> Any:
    """C's division: integers are cut off towards zero."""
    import torch

    floats = [
        v.is_floating_point() if isinstance(v, torch.Tensor) else isinstance(v, float)
        for v in (x, y)
    ]
    return torch.div(x, y) if any(floats) else torch.div(x, y, rounding_mode="trunc")


def logical_right_shift(x: Any, by: Any) -> Any:
    """The bits of integers moved, with zeros behind them, whatever their sign."""
    import torch

    ones = torch.full_like(x, -1)
    low = torch.where(torch.as_tensor(by) > 0, ~(ones << (8 * x.element_size() - by)), ones)
    return (x >> by) & low


def linear(
    x: Any, w: Any, bias: Any = None, *, scale_b: Any = None, zero_b: Any = None,
    group: int | None = None,
) -> Any:  # fmt: skip
    """``x · wᵀ + bias``; with scales of groups, [N, K / group], of ``w - zero_b`` times these.

    Raises:
        UnsupportedError: scales without the size of their groups, or a size without scales.
    """
    import torch

    if scale_b is None and group is None:
        return torch.nn.functional.linear(wide(x), wide(w), bias)
    if scale_b is None or group is None:
        one = "group without scale_b" if scale_b is None else "scale_b without group"
        raise UnsupportedError(f"a linear with {one}", "both or none")
    scales = scale_b.repeat_interleave(group, 1)[:, : w.shape[1]]
    if zero_b is not None:
        zeros = zero_b.repeat_interleave(group, 1)[:, : w.shape[1]]
        w = (wide(w).float() - zeros).to(w.dtype)
    added = None if bias is None else bias.float()
    made = torch.nn.functional.linear(wide(x).float(), wide(w).float() * scales, added)
    return made.to(x.dtype)


def grouped_mm(mat1: Any, mat2: Any, offsets: Any, bias: Any = None) -> Any:
    """The product of each group, and a row for each group of rows added; on a CPU one by one."""
    import torch

    if mat1.device.type == "meta":
        return _of_groups(mat1, mat2, offsets)
    begins = [0, *offsets.tolist()] if mat1.device.type == "cpu" or bias is not None else []
    if not begins:
        return torch._grouped_mm(mat1, mat2, offs=offsets)
    ranks = mat1.dim(), mat2.dim()
    groups = [len(begins) - 1] * (ranks == (2, 2))
    result = mat1.new_zeros(*groups, mat1.shape[-2], mat2.shape[-1])
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


def _of_groups(mat1: Any, mat2: Any, offsets: Any) -> Any:
    """The shape of the product, or why there is none; torch's own says so of more, of fp16 and of
    rows that are not a multiple of 16 bytes.
    """
    groups, matrices = len(offsets), [len(t) for t in (mat1, mat2) if t.dim() == 3]
    if matrices not in ([], [groups]):
        raise ValueError(f"matrices of {matrices[0]} groups, offsets of {groups}")
    left, right = (t.new_empty(t.shape[-2:]) for t in (mat1, mat2))
    product = left @ right
    return product if matrices else product.new_empty((groups, *product.shape))


def full(shape: Sequence[int], fill_value: Any, dtype: Any) -> Any:
    """A tensor of one value, on the CPU; the interpreter moves it."""
    import torch

    return torch.full(tuple(shape), fill_value, dtype=dtype)


def iota(length: int, start: int | None = 0, step: int | None = 1, dtype: Any = None) -> Any:
    """``start + i * step`` for ``length`` values, on the CPU; the interpreter moves it."""
    import torch

    steps = torch.arange(length)
    return (steps * (1 if step is None else step) + (start or 0)).to(dtype or torch.int64)


# --- shapes --------------------------------------------------------------------------------------


def broadcast(x: Any, is_broadcast_dim: Sequence[bool]) -> Any:
    """New dimensions of extent 1 where the flags are true."""
    for position, new in enumerate(is_broadcast_dim):
        x = x.unsqueeze(position) if new else x
    return x


def broadcast_in_dim(x: Any, shape: Sequence[int], broadcast_dims: Sequence[int]) -> Any:
    """``x`` expanded to ``shape``; its dimension i becomes ``broadcast_dims[i]``."""
    kept = set(broadcast_dims)
    return broadcast(x, [d not in kept for d in range(len(shape))]).expand(tuple(shape))


def cat(tensors: Sequence[Any], dim: int = 0, manual_padding: bool = False) -> Any:
    """Concatenation; with ``manual_padding`` all tensors have the full size, zero elsewhere."""
    import torch

    if not manual_padding:
        return torch.cat(list(tensors), dim)
    return reduce(torch.logical_or if tensors[0].dtype is torch.bool else torch.add, tensors)


def expand(x: Any, shape: Sequence[int]) -> Any:
    """Dimensions of extent 1 repeated."""
    return x.expand(tuple(shape))


def gather(x: Any, index: Any, dim: int) -> Any:
    """``x[index[i][j]][j]`` for dimension 0."""
    import torch

    return torch.gather(x, dim, index)


def index_select(x: Any, index: Any, dim: int) -> Any:
    """The slices that a vector of indices names; zeros for one that there is not, as of a sweep."""
    import torch

    along = dim % x.dim()
    if not x.shape[along]:  # no slice to take in place of those
        return x.new_zeros((*x.shape[:along], len(index), *x.shape[along + 1 :]))
    known = (index >= 0) & (index < x.shape[along])
    taken = torch.index_select(x, along, torch.where(known, index, 0))
    return torch.where(known.view(-1, *(1,) * (x.dim() - 1 - along)), taken, x.new_zeros(()))


def pad(x: Any, pad_widths: Sequence[int], value: Any = 0) -> Any:
    """Padding of the last dimensions, the innermost first."""
    import torch

    return torch.nn.functional.pad(x, list(pad_widths), value=value or 0)


def permute(x: Any, dims: Sequence[int]) -> Any:
    """Dimensions in another order."""
    return x.permute(tuple(dims))


def reshape(x: Any, new_shape: Sequence[int]) -> Any:
    """The same elements in another shape."""
    return x.reshape(tuple(new_shape))


def select(x: Any, index: int, dim: int) -> Any:
    """One slice; the dimension goes."""
    return x.select(dim, int(index))


def shape(x: Any) -> tuple[int, ...]:
    """All extents."""
    return tuple(x.shape)


def size(x: Any, dim: int) -> int:
    """One extent."""
    return int(x.shape[dim])


def slice_(
    x: Any,
    start_indices: Sequence[int],
    end_indices: Sequence[int],
    strides: Sequence[int] | None = None,
    manual_normalization: bool = False,
) -> Any:
    """``x[start:end:stride]`` in each dimension."""
    steps = strides or [1] * len(start_indices)
    return x[tuple(map(slice, start_indices, end_indices, steps))]


def squeeze(x: Any, dims: Sequence[int], squeeze_expanded: bool = False) -> Any:
    """Without these dimensions, of extent 1 unless they are repeated."""
    for d in dims:
        if x.shape[d] != 1 and not (squeeze_expanded and x.stride(d) == 0):
            raise ValueError(f"dimension {d} of extent {x.shape[d]} is squeezed")
    return x[tuple(0 if d in {d % x.dim() for d in dims} else slice(None) for d in range(x.dim()))]


def stride_order(x: Any, stride_order: Sequence[int]) -> Any:
    """The same tensor, with each dimension's rank by stride, 0 the smallest."""
    order = sorted(range(x.dim()), key=lambda d: -stride_order[d])
    return x.permute(order).contiguous().permute([order.index(d) for d in range(x.dim())])


def take_along_axis(x: Any, index: Any, dim: int) -> Any:
    """``gather`` that broadcasts."""
    import torch

    return torch.take_along_dim(x, index, dim)


def triu(x: Any, diagonal: int = 0) -> Any:
    """The upper triangle."""
    import torch

    return torch.triu(x, diagonal)


# --- reductions and sorting ----------------------------------------------------------------------


def argsort(x: Any, dim: int, descending: bool = False, stable: bool = False) -> Any:
    """Indices that sort along a dimension."""
    import torch

    return torch.argsort(x, dim=dim, descending=descending, stable=stable)


def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = False) -> Any:
    """Values and indices of the k largest."""
    import torch

    return tuple(torch.topk(x, int(k), dim, largest, sorted))


def var(x: Any, dims: Dims = None, correction: float = 1, keepdim: bool = False) -> Any:
    """Variance."""
    import torch

    return torch.var(x, _axes(x, dims), correction=correction, keepdim=keepdim)


def var_mean(x: Any, dims: Dims = None, correction: float = 1, keepdim: bool = False) -> Any:
    """Variance and mean."""
    import torch

    return torch.var_mean(x, _axes(x, dims), correction=correction, keepdim=keepdim)


def welford(x: Any, dims: Sequence[int]) -> tuple[Any, Any, Any]:
    """Mean, sum of squared deviations, and number of elements."""
    import torch

    count = math.prod(x.shape[d] for d in dims)
    variance, mean = torch.var_mean(x, tuple(dims), correction=0)
    return mean, variance * count, torch.full_like(mean, count, dtype=torch.int64)


def _axes(x: Any, dims: Dims) -> tuple[int, ...]:
    """The dimensions of a reduction: one, several, or all."""
    if dims is None:
        return tuple(range(x.dim()))
    return tuple(d % x.dim() for d in ([dims] if isinstance(dims, int) else dims))


def _reduction(reduce_axes: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction as nvFuser calls it: one dimension under the name ``dim``, several ``dims``."""

    def run(
        x: Any, dims: Dims = None, keepdim: bool = False, dtype: Any = None, dim: Dims = None
    ) -> Any:
        axes = _axes(x, dim if dims is None else dims)
        return reduce_axes(x, axes, keepdim, dtype)

    return run


def _sum(x: Any, axes: tuple[int, ...], keepdim: bool, dtype: Any) -> Any:
    import torch

    return torch.sum(x, axes, keepdim=keepdim, dtype=dtype)


def _prod(x: Any, axes: tuple[int, ...], keepdim: bool, dtype: Any) -> Any:
    for d in sorted(axes, reverse=True):  # torch takes one dimension at a time
        x = x.prod(d, keepdim=keepdim, dtype=dtype)
    return x


def _extremum(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, axes: tuple[int, ...], keepdim: bool, dtype: Any) -> Any:
        found = function(x, axes, keepdim=keepdim)
        return found if dtype is None else found.to(dtype)

    return run
