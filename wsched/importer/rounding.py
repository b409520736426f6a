"""The largest of what is rounded is the largest of what is not, rounded (design/0026)."""

from __future__ import annotations

from wsched.fusion import DataType
from wsched.importer.steps import Builder, Operand, Step

__all__ = ["unrounded"]

_EXTREME = ("max", "min")
"""Reductions that rounding commutes with, since it is monotone."""

_SIGNS = ("abs", "neg")
"""Operations that it commutes with, since it is odd."""

_FLOAT, _SHORT = DataType.Float, (DataType.BFloat16, DataType.Half)


def unrounded(
    builder: Builder, op: str, x: Operand, to: DataType
) -> tuple[Operand, DataType | None]:
    """What a reduction may read in place of an fp32 value that was rounded to 16 bits, with nothing
    but signs changed since, and the type that it is rounded to then; ``x`` where it was not.

    Args:
        builder: of the definition.
        op: of the reduction.
        x: what it reads.
        to: its own type, which it is rounded to anyway: then there is no other.
    """
    if op not in _EXTREME:
        return x, None
    at, signs = x, list[str]()
    exact, between, rounded = x, list[str](), None
    while isinstance(at, Step) and (at.op == "cast" or at.op in _SIGNS):
        (of,) = at.inputs
        if not isinstance(of, Step):
            break
        if at.op in _SIGNS:
            signs.append(at.op)
        elif at.dtype in _SHORT and of.dtype is _FLOAT and rounded in (None, at.dtype):
            exact, between, rounded = of, list(signs), at.dtype
        elif at.dtype is not _FLOAT or of.dtype not in _SHORT:
            break
        at = of
    for op in reversed(between):
        exact = builder.pointwise(op, exact)
    return exact, None if rounded is to else rounded
