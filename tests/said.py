"""What a definition's text says, by Python itself: it is executed, in fp64 and in its own types.

Nothing of wsched is asked, neither how a text is read nor what an operation does. What is no
definition for Python, or is none for nvFuser (a flag too many, a dimension that is not there),
raises :class:`SaysNothingError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = ["Said", "SaysNothingError", "said"]

TYPES = {
    "BFloat16": torch.bfloat16, "Half": torch.float16, "Float": torch.float32,
    "Double": torch.float64, "Int": torch.int64, "Int32": torch.int32, "Bool": torch.bool,
}  # fmt: skip

MOST = 1 << 16
"""Elements of a tensor; a text that wants more is not judged."""


class SaysNothingError(Exception):
    """The text is no definition."""


@dataclass(frozen=True)
class Said:
    """Inputs that fit a text, and what the text makes of them.

    Args:
        inputs: in the types of the definition.
        exact: the results in fp64; those of other types as they are.
        typed: the results in the definition's types, as torch computes them.
    """

    inputs: list[torch.Tensor]
    exact: list[torch.Tensor]
    typed: list[torch.Tensor]


def said(text: str, like: Sequence[torch.Tensor]) -> Said:
    """Execute a text.

    Args:
        text: with one function of one argument, beside which there may be others.
        like: tensors whose sizes stand for those that the text leaves open, by their rank, in turn.

    Raises:
        SaysNothingError: it cannot be executed.
    """
    typed = _execute(text, _Fusion(like, []))
    exact = _execute(text, _Fusion(like, typed.given, exact=True))
    return Said(typed.given, exact.results, typed.results)


def _execute(text: str, fusion: _Fusion) -> _Fusion:
    names: dict[str, Any] = {"DataType": _DataType(), "FusionDefinition": _Fusion}
    before = {*names, "__builtins__"}
    try:
        exec(compile(text, "text", "exec"), names)  # drawn here, from a few words
        made = [v for k, v in names.items() if k not in before and callable(v)]
        functions = [f for f in made if f.__code__.co_argcount == 1]
        if len(functions) != 1:
            raise SaysNothingError(f"{len(functions)} functions")
        functions[0](fusion)
    except SaysNothingError:
        raise
    except Exception as e:
        raise SaysNothingError(f"{type(e).__name__}: {e}") from e
    return fusion


class _DataType:
    """The names of types."""

    Null = None

    def __getattr__(self, name: str) -> Any:
        if name not in TYPES:
            raise AttributeError(name)
        return TYPES[name]


@dataclass
class _Fusion:
    """``fd``: tensors are given as they are defined, and operations computed as they are called."""

    like: Sequence[torch.Tensor]
    given: list[torch.Tensor]
    exact: bool = False
    results: list[torch.Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ops, self._asked, self._taken = _Ops(self.exact), 0, [False] * len(self.like)

    def define_tensor(
        self,
        shape: list[int],
        contiguity: Any = None,
        dtype: Any = torch.float32,
        is_cpu: bool = False,
        stride_order: Sequence[int] | None = None,
    ) -> _Tensor:
        """The next input; one that fits is made in the first execution."""
        if self._asked == len(self.given):
            self.given.append(self._made(shape, contiguity, dtype, stride_order))
        made = self.given[self._asked]
        self._asked += 1
        return _Tensor(made.double() if self.exact and made.is_floating_point() else made)

    def define_scalar(self, value: Any, dtype: Any = None) -> float:
        """A number that the text gives."""
        _require(type(value) in (int, float, bool), "a number")
        return float(value)

    def _made(
        self, shape: list[int], contiguity: Any, dtype: Any, order: Sequence[int] | None
    ) -> torch.Tensor:
        _require(isinstance(shape, (list, tuple)) and all(type(n) is int for n in shape), "shape")
        _require(all(n >= -1 for n in shape) and isinstance(dtype, torch.dtype), "sizes, type")
        rank = len(shape)
        flags = [True] * rank if contiguity in (None, True) else contiguity
        _require(isinstance(flags, (list, tuple)) and len(flags) == rank, "contiguity")
        _require(all(f in (None, True, False) for f in flags), "contiguity")
        at = next(
            (i for i, t in enumerate(self.like) if t.dim() == rank and not self._taken[i]), -1
        )
        open_sizes = [16] * rank
        if at >= 0:
            self._taken[at], open_sizes = True, list(self.like[at].shape)
        sizes = [o if n == -1 else n for n, o in zip(shape, open_sizes, strict=True)]
        _require(math.prod(sizes) <= MOST, "too large")
        order = list(range(rank))[::-1] if order is None else order
        _require(sorted(order) == list(range(rank)), "stride_order")
        generator = torch.Generator().manual_seed(len(self.given))
        value = torch.randn(sizes, generator=generator) * max(sizes[-1:] or [1]) ** -0.5
        by_stride = sorted(range(rank), key=lambda d: -order[d])
        back = [by_stride.index(d) for d in range(rank)]
        value = value > 0 if dtype is torch.bool else value.to(dtype)
        return value.permute(by_stride).contiguous().permute(back)

    def add_output(self, value: _Tensor) -> None:
        """One more result."""
        _require(isinstance(value, _Tensor), "a result")
        self.results.append(value.value)


@dataclass(frozen=True, eq=False)
class _Tensor:
    """A value of the text, with which Python can do nothing."""

    value: torch.Tensor


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise SaysNothingError(what)


Value = Any
"""A tensor or a number."""

_OF_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}


class _Ops:
    """``fd.ops``."""

    def __init__(self, exact: bool) -> None:
        self._exact = exact

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in _POINTWISE:
            return lambda *operands: self._pointwise(name, operands)
        method = getattr(self, f"_{name}", None)
        if method is None or name.startswith("_"):
            raise AttributeError(name)

        def call(*operands: Any, **kwargs: Any) -> Any:
            made = method(*map(_bare, operands), **{k: _bare(v) for k, v in kwargs.items()})
            if isinstance(made, int):
                return made
            return tuple(map(_Tensor, made)) if isinstance(made, tuple) else _Tensor(made)

        return call

    def _pointwise(self, name: str, operands: tuple[Any, ...]) -> Value:
        function, arity = _POINTWISE[name]
        _require(len(operands) == arity, f"{name} of {len(operands)}")
        bare = [_bare(v) for v in operands]
        _require(all(isinstance(v, (torch.Tensor, int, float)) for v in bare), "operands")
        if not any(isinstance(v, _Tensor) for v in operands):  # which makes a number
            return function(*(torch.as_tensor(v, dtype=_OF_NUMBERS[type(v)]) for v in bare)).item()
        if name not in ("relu", "abs", "where"):
            half = (torch.bfloat16, torch.float16)
            bare = [v.float() if getattr(v, "dtype", None) in half else v for v in bare]
        return _Tensor(function(*bare))

    def _cast(self, x: torch.Tensor, dtype: Any) -> torch.Tensor:
        _require(isinstance(dtype, torch.dtype), "cast")
        return torch.as_tensor(x).to(
            torch.float64 if self._exact and dtype.is_floating_point else dtype
        )

    def _linear(self, x: torch.Tensor, w: torch.Tensor, bias: Any = None) -> torch.Tensor:
        _require(x.dim() >= 2 and w.dim() == 2 and x.dtype is w.dtype, "linear")
        _require(bias is None or (bias.dim() == 1 and bias.dtype is x.dtype), "bias")
        made = x.double() @ w.double().T
        return (made if bias is None else made + bias.double()).to(x.dtype)

    def _matmul(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        _require(x.dtype is w.dtype and x.is_floating_point(), "matmul")
        return (x.double() @ w.double()).to(x.dtype)

    def _sum(
        self, x: torch.Tensor, dims: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> torch.Tensor:
        made = x.sum(_axes(x, dims), keepdim=_flag(keepdim))
        return made if dtype is None else self._cast(made, dtype)

    def _max(
        self, x: torch.Tensor, dims: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> torch.Tensor:
        made = x.amax(_axes(x, dims), keepdim=_flag(keepdim))
        return made if dtype is None else self._cast(made, dtype)

    def _var_mean(
        self, x: torch.Tensor, dims: Any = None, correction: float = 1, keepdim: bool = False
    ) -> tuple[torch.Tensor, ...]:
        axes = _axes(x, dims)
        return torch.var_mean(x, axes, correction=correction, keepdim=_flag(keepdim))

    def _size(self, x: torch.Tensor, dim: Any) -> int:
        return int(x.shape[_axes(x, dim)[0]])

    def _pad(self, x: torch.Tensor, pad_widths: Any, value: Any = 0) -> torch.Tensor:
        widths = list(pad_widths)
        _require(len(widths) % 2 == 0 and len(widths) <= 2 * x.dim(), "widths")
        made = x
        for at in range(len(widths) // 2):
            before, after = (_size(n) for n in widths[2 * at : 2 * at + 2])
            _require(min(before, after) >= 0, "widths")
            sides = []
            for n in (before, after):
                sizes = [*made.shape[: -1 - at], n, *made.shape[made.dim() - at :]]
                sides.append(torch.full(sizes, value or 0, dtype=x.dtype))
            made = torch.cat([sides[0], made, sides[1]], -1 - at)
        return made

    def _broadcast(self, x: torch.Tensor, is_broadcast_dim: Any) -> torch.Tensor:
        flags = list(is_broadcast_dim)
        _require(all(type(f) is bool for f in flags) and flags.count(False) == x.dim(), "flags")
        sizes = iter(x.shape)
        return x.reshape([1 if new else next(sizes) for new in flags])

    def _expand(self, x: torch.Tensor, shape: Any) -> torch.Tensor:
        _require(len(shape) == x.dim(), "expand")
        return x.expand([_size(n) for n in shape])

    def _reshape(self, x: torch.Tensor, new_shape: Any) -> torch.Tensor:
        return x.reshape([_size(n) for n in new_shape])

    def _permute(self, x: torch.Tensor, dims: Any) -> torch.Tensor:
        _require(all(type(d) is int for d in dims), "permute")
        return x.permute(list(dims))

    def _squeeze(self, x: torch.Tensor, dims: Any) -> torch.Tensor:
        axes = _axes(x, dims)
        _require(all(x.shape[d] == 1 for d in axes), "squeeze")
        return x.reshape([n for d, n in enumerate(x.shape) if d not in axes])

    def _slice(
        self, x: torch.Tensor, start_indices: Any, end_indices: Any, strides: Any = None
    ) -> torch.Tensor:
        steps = [1] * x.dim() if strides is None else strides
        _require({len(start_indices), len(end_indices), len(steps)} == {x.dim()}, "slice")
        _require(all(type(n) is int for n in (*start_indices, *end_indices, *steps)), "slice")
        _require(all(s > 0 for s in steps), "strides")
        ends = zip(start_indices, end_indices, steps, strict=True)
        made = x[tuple(slice(*e) for e in ends)]
        _require(made.numel() > 0, "an empty slice")
        return made

    def _select(self, x: torch.Tensor, index: Any, dim: Any) -> torch.Tensor:
        _require(type(index) is int and type(dim) is int and -x.dim() <= dim < x.dim(), "select")
        _require(-x.shape[dim] <= index < x.shape[dim], "index")
        return x.select(dim, index)

    def _iota(
        self, length: Any, start: Any = 0, step: Any = 1, dtype: Any = torch.int64
    ) -> torch.Tensor:
        _require(all(type(n) is int for n in (length, start, step)), "iota")
        _require(0 < length <= MOST and step != 0 and dtype in (torch.int64, torch.int32), "iota")
        return torch.arange(start, start + length * step, step, dtype=dtype)

    def _cat(self, tensors: Any, dim: int = 0) -> torch.Tensor:
        found = [_bare(t) for t in tensors]
        _require(type(dim) is int and len({t.dtype for t in found}) == 1, "cat")
        return torch.cat(found, dim)


def _bare(value: Any) -> Any:
    return value.value if isinstance(value, _Tensor) else value


def _flag(value: Any) -> bool:
    _require(type(value) is bool, "a flag")
    return bool(value)


def _size(n: Any) -> int:
    _require(type(n) is int and n >= -1, "a size")
    return int(n)


def _axes(x: torch.Tensor, dims: Any) -> list[int]:
    rank = x.dim()
    found = list(range(rank)) if dims is None else [dims] if type(dims) is int else list(dims)
    _require(all(type(d) is int and -rank <= d < rank for d in found) and found != [], "dims")
    found = [d % rank for d in found]
    _require(len({*found}) == len(found), "dims")
    return found


_POINTWISE: dict[str, tuple[Callable[..., Any], int]] = {
    "abs": (torch.abs, 1),
    "add": (lambda a, b: a + b, 2),
    "div": (lambda a, b: a / b, 2),
    "erf": (torch.erf, 1),
    "exp": (torch.exp, 1),
    "ge": (lambda a, b: a >= b, 2),
    "gt": (lambda a, b: a > b, 2),
    "le": (lambda a, b: a <= b, 2),
    "log": (torch.log, 1),
    "lt": (lambda a, b: a < b, 2),
    "maximum": (torch.maximum, 2),
    "mul": (lambda a, b: a * b, 2),
    "neg": (lambda a: -a, 1),
    "reciprocal": (lambda a: 1 / a, 1),
    "relu": (lambda a: a.clamp(min=0), 1),
    "rsqrt": (lambda a: 1 / torch.sqrt(a), 1),
    "sigmoid": (lambda a: 1 / (1 + torch.exp(-a)), 1),
    "silu": (lambda a: a / (1 + torch.exp(-a)), 1),
    "sqrt": (torch.sqrt, 1),
    "sub": (lambda a, b: a - b, 2),
    "tanh": (torch.tanh, 1),
    "where": (torch.where, 3),
}
"""Operations on single elements, and how many operands they have."""
