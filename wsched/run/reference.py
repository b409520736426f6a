"""What a fusion's results should be: its expressions in fp32 with NumPy, behind given products.

Nothing is rounded to 16 bits on the way, so that a kernel's roundings show as errors; but what a
type cannot hold is infinite, or the largest number of 8 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from string import ascii_lowercase
from typing import Any

import ml_dtypes
import numpy as np

from lowering.ground.errors import UnsupportedError
from wsched.fusion import (
    BroadcastOp,
    CastOp,
    DataType,
    Fusion,
    FusionExpr,
    IndexOp,
    IterType,
    LoadStoreOp,
    MmaOp,
    PointwiseOp,
    Product,
    ReductionOp,
    Role,
    TensorBinding,
    inputs_of,
    products,
)
from wsched.fusion.names import blocks_of

__all__ = ["FUNCTIONS", "computed_operands", "joined", "multiplied", "reduced", "reference"]

_ERF = np.frompyfunc(math.erf, 1, 1)
_ERFC = np.frompyfunc(math.erfc, 1, 1)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "bitwise_and": np.logical_and,
    "bitwise_or": np.logical_or,
    "ceil": np.ceil,
    "cos": np.cos,
    "div": np.divide,
    "eq": np.equal,
    "erf": lambda x: np.asarray(_ERF(x), np.float32),
    "erfc": lambda x: np.asarray(_ERFC(x), np.float32),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "frac": lambda x: x - np.trunc(x),
    "ge": np.greater_equal,
    "gt": np.greater,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "le": np.less_equal,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "lt": np.less,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "pow": np.power,
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, 0),
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "sin": np.sin,
    "sqrt": np.sqrt,
    "sub": np.subtract,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "where": np.where,
}
"""By the name of the operation, a key of ``lowering.kernel.pointwise.OPS``."""


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": partial(np.sum, dtype=np.float64), "max": partial(np.max, initial=-np.inf),
    "min": partial(np.min, initial=np.inf),
}  # fmt: skip
"""By the operation of a reduction; sums in fp64."""

_ROUNDED = {DataType.Half: np.float16, DataType.BFloat16: ml_dtypes.bfloat16}
_MOST = {DataType.Float8_e4m3fn: 448.0, DataType.Float8_e5m2: 57344.0}
"""The value that what exceeds it is rounded to."""


def reduced(op: str, x: Any, over: tuple[int, ...], rounded: DataType | None = None) -> Any:
    """What an array comes to.

    Args:
        op: ``sum``, ``max`` or ``min``.
        x: the array.
        over: its dimensions that are reduced.
        rounded: a type of 16 bits that elements are rounded to.
    """
    with np.errstate(all="ignore"):
        found = _REDUCTIONS[op](x, axis=over)
        return found if rounded is None else _held(found, rounded, read=True)


def reference(
    fusion: Fusion,
    products: Mapping[str, Any],
    inputs: Mapping[str, Any],
    extents: Mapping[str, int] | None = None,
) -> list[Any]:
    """The results in the order of the definition, in fp32: [M, N], reductions without what is
    reduced over. What stands side by side in a tensor does so without a gap.

    What is computed of a value of 16 bits is computed of what it is rounded to; results are not
    rounded.

    Args:
        fusion: scheduled or not.
        products: ``A · Bᵀ`` in fp32, [M, N], by the tensor that a matrix product makes.
        inputs: the epilogue's inputs by tensor: [M, N], [M], [N] or [] in fp32.
        extents: by name, those of what stands side by side; of other fusions none is needed.
    """
    values: dict[str, Any] = dict(inputs)
    shape = np.broadcast_shapes(*(x.shape for x in products.values()))
    read = {
        name
        for e in fusion.exprs
        if isinstance(e, PointwiseOp | CastOp | ReductionOp)
        for name in inputs_of(e)
    }
    with np.errstate(all="ignore"):
        for e in fusion.exprs:
            found = _value(fusion, e, values, products)
            if found is not None:
                dtype = fusion.tensor(e.output).dtype
                values[e.output] = _held(found, dtype, e.output in read)
    found = []
    for b in fusion.outputs:
        value = values[b.tensor]
        if fusion.reduction(b.tensor) is None:
            value = _entry(fusion, b, np.broadcast_to(value, shape), extents or {})
        found.append(value)
    return found


def _entry(fusion: Fusion, b: TensorBinding, value: Any, extents: Mapping[str, int]) -> Any:
    """What a binding is of a result: all of it, or an entry."""
    if b.entry is None:
        return value
    sizes = [extents[name] for name in fusion.lists[b.entry.axis]]
    begin = sum(sizes[: b.entry.index])
    at = fusion.result_axes.index(b.entry.axis)
    return np.take(value, range(begin, begin + sizes[b.entry.index]), axis=at)


def joined(
    fusion: Fusion, values: Sequence[Any], join: Callable[[list[Any], int], Any]
) -> dict[str, tuple[tuple[str, ...], Any]]:
    """The axes and the value of each input of a fusion by its tensor, lists as one.

    Args:
        fusion: scheduled or not.
        values: of the inputs, in the order of the definition.
        join: puts several side by side along a dimension.
    """
    by_key = {b.key: x for b, x in zip(fusion.inputs, values, strict=True)}
    found = {}
    for name in dict.fromkeys(b.tensor for b in fusion.inputs):
        first, *others = fusion.entries(name)
        if first.entry is None:
            found[name] = first.axes, by_key[first.key]
            continue
        parts = [by_key[b.key] for b in (first, *others)]
        found[name] = first.axes, join(parts, first.axes.index(first.entry.axis))
    return found


def computed_operands(
    fusion: Fusion, given: Callable[[str], Any], rounded: Callable[[Any, DataType], Any]
) -> dict[str, Any]:
    """Operands of matrix products that are computed from an input, by name, each with its shape.

    They are rounded where the definition casts: what is multiplied is the operand as it is.

    Args:
        fusion: scheduled or not.
        given: an input in fp32, by its tensor.
        rounded: values in fp32 that a type has.
    """
    found: dict[str, Any] = {}
    for name in dict.fromkeys(_copied(fusion, x) for e in fusion.mmas for x in (e.a, e.b)):
        steps = [e for n in fusion.made_from((name,)) if (e := fusion.definition(n)) is not None]
        if not steps or any(isinstance(e, MmaOp) for e in steps):
            continue
        source = fusion.source(name).name
        values = {source: given(source)}
        with np.errstate(all="ignore"):
            for e in steps:
                value = _value(fusion, e, values, {})
                values[e.output] = rounded(value, fusion.tensor(e.output).dtype)
        found[name] = values[name].reshape(values[source].shape)
    return found


def multiplied(
    fusion: Fusion,
    inputs: Sequence[Any],
    einsum: Callable[[str, Any, Any], Any],
    join: Callable[[list[Any], int], Any] = np.concatenate,
    computed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Every matrix product in fp32, by the tensor that it makes.

    Args:
        fusion: scheduled or not.
        inputs: in the order of the definition.
        einsum: of two of them, or of computed operands, with a result in fp32.
        join: puts several side by side along a dimension.
        computed: operands that are no inputs (:func:`computed_operands`).

    Raises:
        UnsupportedError: one of something that is neither.
    """
    given = joined(fusion, inputs, join)
    operands = {name: x for name, (_, x) in given.items()} | dict(computed or {})
    made = {}
    for p in products(fusion):
        names = [_copied(fusion, name) for name in (p.mma.a, p.mma.b)]
        for operand in names:
            if operand not in operands:
                raise UnsupportedError(
                    f"{p.mma.output} = {p.mma}, of {operand}, which is computed",
                    "matrix products of inputs",
                )
        formula = _formula(p, given[p.a.name][0], given[p.b.name][0])
        sides = [operands[name] for name in names]
        for at, scale in enumerate(p.mma.scales or ()):
            if scale is None:
                continue
            axes = given[(p.a, p.b)[at].name][0]
            if scale.zero:
                sides[at] = _in_fp32(sides[at]) - _each(sides[at], axes, *given[scale.zero])
            sides[at] = _in_fp32(sides[at]) * _each(sides[at], axes, *given[scale.tensor])
        made[p.mma.output] = einsum(formula, *sides)
    return made


def _each(x: Any, axes: tuple[str, ...], of: tuple[str, ...], scale: Any) -> Any:
    """The numbers of an operand's blocks, of dimensions ``of``, for each of its elements."""
    scale = _in_fp32(scale)
    sizes = {axis: blocks_of(axis) or (axis, 1) for axis in of}
    order = [next(at for at, name in enumerate(of) if sizes[name][0] == axis) for axis in axes]
    scale = scale.transpose(order)
    for at, dim in enumerate(order):
        scale = np.repeat(scale, sizes[of[dim]][1], at)
    return scale[tuple(slice(n) for n in x.shape)]


def _in_fp32(x: Any) -> Any:
    return np.asarray(x.float().cpu() if hasattr(x, "is_cuda") else x, np.float32)


def _copied(fusion: Fusion, name: str) -> str:
    """What a tensor is a copy or view of."""
    while isinstance(e := fusion.definition(name), BroadcastOp | LoadStoreOp):
        name = e.input
    return name


def _formula(product: Product, a: tuple[str, ...], b: tuple[str, ...]) -> str:
    """A product in its order of dimensions, for ``einsum``: a letter for each name."""
    pairs = zip(product.dims, product.roles, strict=True)
    result = tuple(str(d.extent) for d, role in pairs if role is not Role.K)
    letters = dict(zip(dict.fromkeys((*a, *b, *result)), ascii_lowercase, strict=False))
    left, right, made = ("".join(letters[axis] for axis in axes) for axes in (a, b, result))
    return f"{left},{right}->{made}"


def _held(x: Any, dtype: DataType, read: bool) -> Any:
    """What something is computed of, if it is read, in a tensor of that type; else infinities, or
    largest numbers, for what is rounded to them.
    """
    if dtype in _MOST:
        return np.clip(x, -_MOST[dtype], _MOST[dtype])
    if dtype not in _ROUNDED:
        return x
    rounded = np.float32(x.astype(_ROUNDED[dtype]))
    return rounded if read else np.where(np.isinf(rounded), rounded, x)


def _value(
    fusion: Fusion, e: FusionExpr, values: Mapping[str, Any], products: Mapping[str, Any]
) -> Any:
    """The value of one expression; None of the operands and what they are made of, which nothing
    here reads.
    """
    match e:
        case MmaOp(output=made):
            return products[made]
        case IndexOp(factors=factors, limit=limit):
            shape = np.broadcast_shapes(*(x.shape for x in products.values()))
            places: tuple[Any, ...] = np.indices(shape, sparse=True)
            terms = (f * place for f, place in zip(factors, places, strict=True) if f)
            return np.asarray(sum(terms) < limit).reshape(
                tuple(n if f else 1 for f, n in zip(factors, shape, strict=True))
            )
        case PointwiseOp(inputs=inputs) if any(
            isinstance(x, str) and x not in values for x in inputs
        ):
            return None
        case PointwiseOp(op=op, inputs=inputs):
            return FUNCTIONS[op](
                *(values[x] if isinstance(x, str) else np.float32(x) for x in inputs)
            )
        case ReductionOp(output=output, input=source, op=op, rounded=rounded):
            dims = fusion.tensor(output).read
            over = tuple(p for p, d in enumerate(dims) if d.iter_type is IterType.Reduction)
            shape = np.broadcast_shapes(*(x.shape for x in products.values()))
            return reduced(op, np.broadcast_to(values[source], shape), over, rounded)
        case BroadcastOp(input=source, flags=flags) if source in values:
            return values[source][tuple(None if new else slice(None) for new in flags)]
    source = getattr(e, "input", "")
    found = values.get(source)
    return found.astype(np.float32) if found is not None else None
