"""Operations of nvFuser that are imported as several of the kernel's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.steps import Builder, Operand, Step

__all__ = ["COMPOSITES"]


def _like(b: Builder, x: Operand, result: Operand) -> Operand:
    """``result`` in the type of ``x``."""
    return b.cast(result, x.dtype) if isinstance(x, Step) else result


def _wide(b: Builder, *operands: Operand) -> Iterator[Operand]:
    """Operands in fp32, in the order in which nvFuser casts them."""
    return (b.cast(x, DataType.Float) for x in operands)


def _addcmul(b: Builder, x: Operand, y: Operand, z: Operand, value: Operand) -> Operand:
    x, y, z = _wide(b, x, y, z)
    scaled = b.pointwise("mul", z, value)
    return b.pointwise("add", x, b.pointwise("mul", y, scaled))


def _bitwise_xor(b: Builder, x: Operand, y: Operand) -> Operand:
    either = b.pointwise("logical_or", x, y)
    both = b.pointwise("logical_and", x, y)
    return b.pointwise("logical_and", either, b.pointwise("logical_not", both))


def _clamp(b: Builder, x: Operand, low: Operand, high: Operand) -> Operand:
    return _like(b, x, b.pointwise("minimum", b.pointwise("maximum", x, low), high))


def _lerp(b: Builder, x: Operand, y: Operand, weight: Operand) -> Operand:
    """Exact at both ends: from the nearer one, as ATen and nvFuser do it."""
    if isinstance(weight, Step):
        raise UnsupportedError("fd.ops.lerp with a tensor as weight", "a number as weight")
    x, y = _wide(b, x, y)
    way = b.pointwise("sub", y, x)
    if abs(weight) < 0.5:
        return b.pointwise("add", x, b.pointwise("mul", way, weight))
    return b.pointwise("sub", y, b.pointwise("mul", way, 1.0 - weight))


def _sign(b: Builder, x: Operand) -> Operand:
    above = b.pointwise("gt", x, 0.0)
    below = b.pointwise("where", b.pointwise("lt", x, 0.0), -1.0, 0.0)
    return _like(b, x, b.pointwise("where", above, 1.0, below))


def _threshold(b: Builder, x: Operand, threshold: Operand, value: Operand) -> Operand:
    return _like(b, x, b.pointwise("where", b.pointwise("le", x, threshold), value, x))


COMPOSITES: dict[str, Callable[..., Operand]] = {
    "addcmul": _addcmul,
    "bitwise_xor": _bitwise_xor,
    "clamp": _clamp,
    "lerp": _lerp,
    "sign": _sign,
    "threshold": _threshold,
}
"""By name; each takes the builder and the operands."""
