"""nvFuser's operations as torch functions, by name.

Texts that nvFuser prints cast before every operation that computes in fp32. A text written by hand
need not: so 16-bit floats are widened before the operations for which nvFuser casts them
(``PROMOTED``). The other operations keep the type of their argument, as nvFuser's do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

from wsched.doors.fallback.torch_products import grouped_mm, linear, matmul

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

_OF_TENSORS = "atan2 eq fmod gcd ge gt le logical_and logical_or lt maximum minimum ne nextafter"
"""Those of two operands for which torch wants tensors, both or the first; nvFuser takes numbers."""


@cache
def operations() -> dict[str, Callable[..., Any]]:
    """Every operation that can be interpreted; keyword names are those that nvFuser prints."""
    import torch

    table: dict[str, Callable[..., Any]] = {name: getattr(torch, name) for name in _SAME.split()}
    functional = torch.nn.functional
    table |= {name: _of_tensors(table[name]) for name in _OF_TENSORS.split()}
    table |= {
        "addcmul": lambda a, b, c, value=1: a + value * b * c,
        "clamp": lambda x, low, high: torch.clamp(x, low, high),
        "cumsum": lambda x, dim: torch.cumsum(x, dim),
        "cumprod": lambda x, dim: torch.cumprod(x, dim),
        "mod": _of_tensors(torch.fmod),
        "silu": functional.silu,
        "threshold": lambda x, limit, value: torch.where(x <= limit, value, x),
        "truediv": torch.true_divide,
    }
    named = (
        argsort, broadcast, broadcast_in_dim, cast, cat, div, embedding_fwd, expand, full, gather,
        grouped_mm, index_put_accumulate, index_select, iota, linear, logical_right_shift, matmul,
        pad, permute, reshape, scatter, select, shape, size, slice_, squeeze, stride_order,
        take_along_axis, topk, triu, var, var_mean, welford, where,
    )  # fmt: skip
    table |= {f.__name__.rstrip("_"): f for f in named}
    table |= {"set": torch.clone, "segment_set": torch.clone}
    table |= {"sum": _reduction(_sum), "prod": _reduction(_prod)}
    table |= {
        "max": _reduction(_extremum(torch.amax)),
        "min": _reduction(_extremum(torch.amin)),
    }
    return table


# --- arithmetic ----------------------------------------------------------------------------------


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
    low = ~(ones << (8 * x.element_size() - by))
    if isinstance(by, torch.Tensor):
        low = torch.where(by > 0, low, ones)
    elif by <= 0:
        low = ones
    return (x >> by) & low


def full(shape: Sequence[int], fill_value: Any, dtype: Any) -> Any:
    """A tensor of one value; the interpreter says where."""
    import torch

    return torch.full(tuple(shape), fill_value, dtype=dtype)


def iota(length: int, start: int | None = 0, step: int | None = 1, dtype: Any = None) -> Any:
    """``start + i * step`` for ``length`` values; the interpreter says where."""
    import torch

    steps = torch.arange(length)
    if dtype is torch.float64:  # fp32, which torch takes beside integers, has fewer bits
        steps = steps.to(dtype)
    return (steps * (1 if step is None else step) + (start or 0)).to(dtype or torch.int64)


def where(condition: Any, x: Any, y: Any) -> Any:
    """One or the other; of two numbers a fraction is Double, as nvFuser has it."""
    import torch

    if not any(isinstance(v, torch.Tensor) for v in (x, y)) and isinstance(condition, torch.Tensor):
        whole = all(isinstance(v, (int, torch.SymInt)) for v in (x, y))
        kind = torch.int64 if whole else torch.float64
        x, y = (torch.full((), v, dtype=kind, device=condition.device) for v in (x, y))
    return torch.where(condition, x, y)


def _of_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two tensors that takes a number for one of them, as which torch promotes it.

    The number is filled in where the tensor is: a graph has no copies from the host.
    """
    import torch

    def run(x: Any, y: Any) -> Any:
        given = (x, y)
        like = next(v for v in given if isinstance(v, torch.Tensor))
        return function(*(
            v if isinstance(v, torch.Tensor)
            else torch.full((), v, dtype=torch.result_type(like, v), device=like.device)
            for v in given
        ))  # fmt: skip

    return run


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


def embedding_fwd(
    index: Any,
    table: Any,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: Any = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of a table, no longer than ``max_norm``; torch would shorten them in the table."""
    import torch

    table = table if max_norm is None else table.clone()
    return torch.nn.functional.embedding(index, table, padding_idx, max_norm, norm_type)


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


def index_put_accumulate(acc: Any, index: Any, value: Any) -> Any:
    """``acc`` with rows of ``value`` added to those that indices name, where it has them."""
    import torch

    known = (index >= 0) & (index < acc.shape[0])
    rows = torch.where(known.view(-1, 1), value, value.new_zeros(()))
    return acc.index_add(0, torch.where(known, index, 0), rows) if len(acc) else acc.clone()


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


def scatter(x: Any, index: Any, src: Any, dim: int) -> Any:
    """``x`` with ``src`` at ``[index[i][j]][j]`` for dimension 0; a number goes everywhere."""
    import torch

    return torch.scatter(x, dim, index, src)


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
    """Without these dimensions, of extent 1 unless ``expand`` gave them: memory may have all."""
    for d in dims:
        if x.shape[d] != 1 and not squeeze_expanded:
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
