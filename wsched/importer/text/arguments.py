"""Arguments of a call in one spelling: by newer names, in nvFuser's order, nothing left over."""

from __future__ import annotations

import ast
from difflib import get_close_matches
from typing import TypeGuard

from wsched.importer.definition import Value
from wsched.importer.signatures import DEFINE, OLDER, parameters
from wsched.importer.text.source import Source

__all__ = ["Call", "canonical", "layout_of"]

Named = dict[str, Value]
Call = tuple[tuple[Value, ...], Named]
"""Positional arguments, and those that are named."""


def canonical(source: Source, at: ast.Call, op: str, call: Call) -> Call:
    """The arguments of ``fd.ops.op`` or ``fd.op``.

    Operands are positional where they are named ``arg``, ``arg0``, ... in nvFuser; what is said of
    them (dimensions, sizes, types, flags) is named, as nvFuser prints it: flags are True or False,
    dimensions and sizes numbers, and a permutation counts from the first dimension. Other arguments
    stay as they are written. Those of the definition's own calls are all named.

    Raises:
        UnsupportedError: an argument that the call does not have, or two for one.
    """
    names = parameters(op)
    if names is None:
        return call
    operands, named = _modern(op, *call)
    named = {_newer(k, names): v for k, v in named.items()}
    what = f"fd.{'' if op in DEFINE else 'ops.'}{op}"
    allowed = ", ".join(names)
    extra = _EXTRA.get(op, ())
    if len(operands) > len(names):
        raise source.refusal(at, allowed, f"{what} with {len(operands)} arguments")
    for name in named:
        if name not in (*names, *extra):
            near = get_close_matches(name, names)
            hint = f"Did you mean {near[0]}?" if near else ""
            raise source.refusal(at, allowed, f"the argument {name} of {what}", hint)
        if name in names[: len(operands)]:
            raise source.refusal(at, "one", f"two arguments {name} of {what}")
    if op in DEFINE:
        if op == "define_tensor" and len(operands) > 1 and all(map(_integers, operands[:2])):
            names = ("sizes", "strides", *names[2:])  # for nvFuser, too, integers are that here
        return (), _typed(dict(zip(names, operands, strict=False)) | named)
    for name in names[len(operands) :]:
        if not name.startswith("arg") or name not in named:
            break
        operands = (*operands, named.pop(name))
    if (first := _said_from(names)) < len(operands):
        named = dict(zip(names[first:], operands[first:], strict=False)) | named
        operands = operands[:first]
    named = _typed(named)
    if op == "permute" and _integers(dims := named.get("dims")):
        named["dims"] = tuple(d + len(dims) if d < 0 else d for d in dims)
    order = {name: position for position, name in enumerate((*names, *extra))}
    return operands, dict(sorted(named.items(), key=lambda item: order[item[0]]))


_EXTRA = {
    "define_tensor": ("sizes", "strides", "static_sizes"),
    "add_output": ("stride_order",),
    "linear": ("scale_b", "zero_b", "group", "dtype"),
    "matmul": ("dtype",),
    "scaled_mm": ("use_fast_accum", "scale_blocks"),
}


_FLAGS = frozenset((
    "contiguity", "descending", "is_broadcast_dim", "is_cpu", "keepdim", "largest",
    "manual_normalization", "manual_padding", "sorted", "squeeze_expanded", "stable",
))  # fmt: skip
"""Names of arguments that are true or false, or lists of these."""

_COUNTS = frozenset((
    "broadcast_dims", "correction", "diagonal", "dim", "dims", "end_indices", "group", "new_shape",
    "original_shape", "pad_widths", "scale_blocks", "shape", "start_indices", "stride_order",
    "strides",
))  # fmt: skip
"""Names of arguments that are integers, or lists of these."""

_SAID = _FLAGS | _COUNTS | {"dtype", "init", "value"}
"""Names of arguments that are no operands."""


def _said_from(names: tuple[str, ...]) -> int:
    """Where the arguments begin that are no operands, and behind which there is no operand."""
    first = len(names)
    while first > 1 and names[first - 1] in _SAID:
        first -= 1
    return first


def _typed(named: Named) -> Named:
    """Numbers as the flags, and flags as the numbers, that they stand for: nvFuser takes both."""
    return {
        k: _flags(v) if k in _FLAGS else _counts(v) if k in _COUNTS else v for k, v in named.items()
    }


def _flags(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_flags, value))
    return bool(value) if isinstance(value, int | float | complex) else value


def _counts(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_counts, value))
    return int(value) if isinstance(value, bool) else value


def _newer(name: str, names: tuple[str, ...]) -> str:
    """The name that an argument has today."""
    return OLDER.get(name, name) if name not in names and OLDER.get(name) in names else name


def _modern(op: str, operands: tuple[Value, ...], named: Named) -> Call:
    """Without the operand's own shape, which older versions wanted beside the new one."""
    named = {k: v for k, v in named.items() if k != "original_shape"}
    if op in ("reshape", "squeeze") and len(operands) == 3 and isinstance(operands[2], tuple):
        operands = (operands[0], operands[2])
    return operands, named


def layout_of(named: Named) -> Named:
    """``define_tensor`` by shape and stride order, where it is called with sizes and strides.

    Sizes are symbolic then, but for 1, unless ``static_sizes`` is true.
    """
    sizes, strides = named.get("sizes"), named.get("strides")
    if not _integers(sizes) or not _integers(strides) or len(sizes) != len(strides):
        return named
    fixed = named.get("static_sizes", False) is True
    order = sorted(range(len(sizes)), key=lambda d: (strides[d], -d))
    dense, contiguity = 1, list[Value]()
    for d in order:
        contiguity.append(None if sizes[d] == 1 else strides[d] == dense)
        dense = strides[d] * sizes[d]
    shape = tuple(n if fixed or n == 1 else -1 for n in sizes)
    ranks = tuple(order.index(d) for d in range(len(sizes)))
    kept = {k: v for k, v in named.items() if k in ("dtype", "is_cpu")}
    return {
        "shape": shape, "contiguity": tuple(reversed(contiguity)), **kept, "stride_order": ranks
    }  # fmt: skip


def _integers(value: Value) -> TypeGuard[tuple[int, ...]]:
    return isinstance(value, tuple) and bool(value) and all(type(x) is int for x in value)
