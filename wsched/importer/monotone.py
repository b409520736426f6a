"""Largest and least elements of what is rounded: the rounding may follow them."""

from __future__ import annotations

from wsched.fusion import DataType
from wsched.importer.steps import Builder, Operand, Step

__all__ = ["unrounded"]

_MONOTONE = ("max", "min")
"""Reductions that are one of the elements, the same one whether these are rounded or not."""
_SIGNS = ("abs", "neg")
"""Operations that rounding commutes with."""
_NARROW = (DataType.BFloat16, DataType.Half)


def unrounded(steps: Builder, op: str, x: Operand) -> tuple[Operand, DataType | None]:
    """What is reduced, in fp32, without a rounding to 16 bits that may follow the reduction, and
    the type that this is to; ``x`` and None where there is none.

    Behind the rounding nothing is changed but signs. Of several the last one counts, and what is
    in front of it stays.

    Args:
        steps: makes what is reduced in place of ``x``.
        op: the reduction.
        x: what is reduced, in fp32.
    """
    if op not in _MONOTONE:
        return x, None
    found, signs, rounded = x, list[str](), None
    while isinstance(found, Step) and found.op in (*_SIGNS, "cast"):
        (of,) = found.inputs
        if found.op in _SIGNS:
            signs.append(found.op)
        elif not isinstance(of, Step):
            break
        elif of.dtype is DataType.Float and rounded in (None, found.dtype):
            rounded = found.dtype
        elif found.dtype is not DataType.Float or of.dtype not in _NARROW:
            break
        found = of
    if rounded is None:
        return x, None
    found = steps.cast(found, DataType.Float)
    for sign in reversed(signs):
        found = steps.pointwise(sign, found)
    return found, rounded
