"""Operands that are computed: zero behind the end of what a product sums over.

TMA brings zeros from behind the end of a tensor, and so does a load by threads. What is computed of
zeros is zero for most operations, but not for all (``exp``, or a bias that is added), and then each
element behind the end would be a term of every sum. Where the value there is not known to be zero,
it is made so before it is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lowering.ground.dtypes import DType
from lowering.ground.frozen import replaced
from lowering.kernel.nodes import Frag, FragCast, FragPointwise
from lowering.nest.domains import repeats
from lowering.nest.place import Place
from wsched.fusion import (
    BroadcastOp,
    CastOp,
    Fusion,
    IterType,
    LoadStoreOp,
    MmaOp,
    PointwiseOp,
)

__all__ = ["padded", "read_as_it_is", "value_behind_end"]


def padded(place: Place, value: Frag) -> Frag:
    """``value`` of a tensor that products read, with zeros behind the end of what they sum over.

    Args:
        place: where the tensor is stored.
        value: what is stored of it.

    Raises:
        UnsupportedError: it is computed of a list, whose entries have ends of their own.
    """
    t = place.tensor
    for at in sorted(_summed(place.fusion, t.name)):
        d = t.stored[at]
        if repeats(d) or value_behind_end(place.fusion, t.name, at) == 0.0:
            continue
        if str(d.extent) in place.fusion.lists:
            what = f"{t.name} = {place.expr}, computed of tensors that stand side by side along "
            raise place.refuse(f"{what}{d.extent}", "values that are zero where these are")
        kind = value.type
        below = place.below(kind, d, by_rows=d == place.tile.order[-2])
        wide = Frag(place.namer.new("padded"), replaced(kind, dtype=DType.F32))
        place.emit(FragPointwise(wide, "where", (below, value, 0.0)))
        value = wide
        if kind.dtype is not DType.F32:
            value = Frag(place.namer.new(t.name.lower()), kind)
            place.emit(FragCast(value, wide))
    return value


def read_as_it_is(place: Place, value: Frag) -> Frag:
    """``value`` of a tensor in registers, :func:`padded` where a product reads it and its elements
    behind the end might not be finite: the other operand has zeros there, whose products with all
    that is finite are zero.
    """
    summed = _summed(place.fusion, place.tensor.name)
    if all(_is_finite_behind_end(place.fusion, place.tensor.name, at) for at in summed):
        return value
    return padded(place, value)


def _is_finite_behind_end(fusion: Fusion, name: str, at: int) -> bool:
    """Whether a tensor is finite behind the end of a dimension, as far as is known; what is the
    same along it is taken to be: where it is not, no result of its row is finite.
    """
    e = fusion.definition(name)
    if value_behind_end(fusion, name, at) is not None:
        return True
    match e:
        case None:
            return repeats(fusion.tensor(name).stored[at])
        case BroadcastOp(input=read, flags=flags):
            return flags[at] or _is_finite_behind_end(fusion, read, at - sum(flags[:at]))
        case CastOp(input=read) | LoadStoreOp(input=read):
            return _is_finite_behind_end(fusion, read, at)
        case PointwiseOp(op=op, inputs=inputs) if op in _FINITE:
            named = (x for x in inputs if isinstance(x, str))
            return all(_is_finite_behind_end(fusion, x, at) for x in named)
    return False


def _summed(fusion: Fusion, name: str) -> set[int]:
    """Positions of the dimensions of a tensor that products of it sum over."""
    return {
        at
        for e in fusion.uses(name)
        if isinstance(e, MmaOp)
        for at, d in enumerate(fusion.tensor(e.output).read)
        if d.iter_type is IterType.Reduction
    }


def value_behind_end(fusion: Fusion, name: str, at: int) -> float | None:
    """What a tensor is computed to be behind the end of a dimension; None if that is not known.

    Args:
        fusion: the fusion.
        name: of the tensor.
        at: position of the dimension.
    """
    e = fusion.definition(name)
    match e:
        case None:
            return None if repeats(fusion.tensor(name).stored[at]) else 0.0
        case BroadcastOp(input=read, flags=flags):
            return None if flags[at] else value_behind_end(fusion, read, at - sum(flags[:at]))
        case CastOp(input=read) | LoadStoreOp(input=read):
            return value_behind_end(fusion, read, at)
        case PointwiseOp(op=op, inputs=inputs) if op in _VALUES:
            args = [value_behind_end(fusion, x, at) if isinstance(x, str) else x for x in inputs]
            known = [x for x in args if x is not None]
            return _value(op, known) if len(known) == len(args) else None
    return None


def _value(op: str, args: list[float]) -> float | None:
    try:
        found = _VALUES[op](*args)
    except (ArithmeticError, ValueError):
        return None
    return found if math.isfinite(found) else None


_FINITE = ("add", "sub", "mul", "neg", "abs", "relu", "minimum", "maximum")
"""Operations that make something finite of what is."""

_VALUES: dict[str, Callable[..., float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "neg": lambda x: -x,
    "abs": abs,
    "relu": lambda x: max(x, 0.0),
    "exp": math.exp,
    "tanh": math.tanh,
    "erf": math.erf,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "minimum": min,
    "maximum": max,
}
"""Operations whose value at numbers is known well enough to tell whether it is zero."""
