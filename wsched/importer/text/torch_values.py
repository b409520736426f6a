"""Tensors of torch that a text makes for its definition: sizes, strides and type, no elements.

A script makes its inputs beside the definition and asks them for their shape
(``fd.from_pytorch(inputs[0])``, ``x.shape``). What is not understood here has no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from wsched.importer.text.values import Library, Python, TorchMethod, TorchTensor

__all__ = ["TORCH_TYPES", "attribute", "torch_value"]

TORCH_TYPES = {
    "torch.bfloat16": "BFloat16", "torch.half": "Half", "torch.float16": "Half",
    "torch.float": "Float", "torch.float32": "Float", "torch.double": "Double",
    "torch.float64": "Double", "torch.int": "Int32", "torch.int32": "Int32", "torch.long": "Int",
    "torch.int64": "Int", "torch.bool": "Bool", "torch.float8_e4m3fn": "Float8_e4m3fn",
    "torch.float8_e5m2": "Float8_e5m2",
}  # fmt: skip
"""The names of types here, by torch's."""

_MAKERS = ("empty", "full", "make_tensor", "ones", "rand", "randn", "zeros")


def torch_value(function: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Python:
    """A tensor that a text makes, or what it asks one; None where that is not told.

    Args:
        function: what is called.
        given: its positional arguments.
        named: its named arguments.
    """
    kind = named.get("dtype")
    if isinstance(function, TorchMethod):
        to = given[0] if function.name == "to" and len(given) == 1 else None
        if isinstance(to, Library):
            return replace(function.of, dtype=to.path) if to.path in TORCH_TYPES else None
        return _called(function, given, named)
    if not isinstance(function, Library) or not isinstance(kind, Library | None):
        return None
    dtype = "" if kind is None else kind.path
    if not function.path.startswith("torch.") or (dtype and dtype not in TORCH_TYPES):
        return None
    return _made(function.path, given, named, dtype)


def _made(
    path: str, given: Sequence[Any], named: Mapping[str, Any], dtype: str
) -> TorchTensor | None:
    """What a function of torch makes, of a type; none is the function's own."""
    name = path.rpartition(".")[2]
    if name.endswith("_like") and given and isinstance(given[0], TorchTensor):
        like = _dense(given[0].sizes, given[0].dtype)
        return replace(like, dtype=dtype) if dtype else like
    first = 0
    if name == "randint":
        first = next((at for at, x in enumerate(given) if isinstance(x, tuple)), len(given))
    elif name not in _MAKERS:
        return None
    sizes = named.get("size", given[first:])
    if len(sizes) and isinstance(sizes[0], tuple):
        sizes = sizes[0]
    if not _are_sizes(sizes):
        return None
    return _dense(sizes, dtype or ("torch.int64" if name == "randint" else "torch.float32"))


def attribute(tensor: TorchTensor, name: str) -> Python:
    """What a tensor has by a name: sizes, or a method of it; its type is for the caller."""
    match name:
        case "shape":
            return tensor.sizes
        case "ndim":
            return len(tensor.sizes)
        case "T" | "mT" if len(tensor.sizes) == 2:
            return _permuted(tensor, (1, 0))
    return TorchMethod(tensor, name)


def _called(method: TorchMethod, given: Sequence[Any], named: Mapping[str, Any]) -> Python:
    function = _METHODS.get(method.name)
    try:
        return None if function is None else function(method.of, *given, **named)
    except (IndexError, TypeError, ValueError):
        return None


def _are_sizes(sizes: Any) -> bool:
    return isinstance(sizes, tuple) and all(type(n) is int and n >= 0 for n in sizes)


def _dense(sizes: tuple[int, ...], dtype: str) -> TorchTensor:
    strides = tuple(prod(max(n, 1) for n in sizes[at + 1 :]) for at in range(len(sizes)))
    return TorchTensor(sizes, strides, dtype)


def _permuted(tensor: TorchTensor, order: tuple[int, ...]) -> TorchTensor:
    if sorted(order) != list(range(len(tensor.sizes))):
        raise ValueError(order)
    sizes, strides = (tuple(v[at] for at in order) for v in (tensor.sizes, tensor.strides))
    return TorchTensor(sizes, strides, tensor.dtype)


def _transposed(tensor: TorchTensor, dim0: int, dim1: int) -> TorchTensor:
    order = list(range(len(tensor.sizes)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _permuted(tensor, tuple(order))


def _sized(tensor: TorchTensor, *sizes: Any) -> TorchTensor:
    """``view`` or ``reshape`` of a tensor that lies row by row."""
    wanted = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple) else sizes
    count = prod(tensor.sizes)
    known = prod(n for n in wanted if n != -1)
    if wanted.count(-1) > 1 or tensor != _dense(tensor.sizes, tensor.dtype):
        raise ValueError(wanted)
    found = tuple(count // max(known, 1) if n == -1 else n for n in wanted)
    if not _are_sizes(found) or prod(found) != count:
        raise ValueError(wanted)
    return _dense(found, tensor.dtype)


def _strided(tensor: TorchTensor, size: tuple[int, ...], stride: tuple[int, ...]) -> TorchTensor:
    if not _are_sizes(size) or not _are_sizes(stride) or len(size) != len(stride):
        raise ValueError(size)
    return TorchTensor(size, stride, tensor.dtype)


def _same(tensor: TorchTensor, *_: Any, **__: Any) -> TorchTensor:
    return tensor


def _size(tensor: TorchTensor, dim: int | None = None) -> Any:
    return tensor.sizes if dim is None else tensor.sizes[dim]


def _stride(tensor: TorchTensor, dim: int | None = None) -> Any:
    return tensor.strides if dim is None else tensor.strides[dim]


_METHODS: dict[str, Callable[..., Any]] = {
    "as_strided": _strided,
    "bfloat16": lambda t: replace(t, dtype="torch.bfloat16"),
    "clone": _same,
    "contiguous": lambda t: _dense(t.sizes, t.dtype),
    "cuda": _same,
    "detach": _same,
    "dim": lambda t: len(t.sizes),
    "float": lambda t: replace(t, dtype="torch.float32"),
    "half": lambda t: replace(t, dtype="torch.float16"),
    "permute": lambda t, *d: _permuted(t, d[0] if len(d) == 1 else d),
    "requires_grad_": _same,
    "reshape": _sized,
    "size": _size,
    "stride": _stride,
    "t": lambda t: _permuted(t, tuple(range(len(t.sizes)))[::-1]),
    "transpose": _transposed,
    "view": _sized,
}
