"""Scalars that are given a name, and of which another number or operator is made one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowering.ground.expr import I32_MAX, Binary, Const, Expr, ScalarType, Select

__all__ = ["otherwise"]

_OTHERS: Mapping[str, str] = {
    "+": "-", "-": "+", "*": "+", "//": "%", "%": "//", "ceildiv": "//", "min": "max", "max": "min",
    "<": "<=", "<=": "<", "==": "<=",
}  # fmt: skip
"""An operator of the same types in place of each."""


def otherwise(e: Expr) -> Iterator[Expr]:
    """The expression with one of its numbers one larger, or halved, one of its operators another,
    or the sides of one of its choices exchanged.
    """
    match e:
        case Const(value, ScalarType.I32 as type_):
            if value < I32_MAX:
                yield Const(value + 1, type_)
            if value > 2:
                yield Const(value // 2, type_)
        case Binary(op, lhs, rhs):
            if op in _OTHERS:
                yield Binary(_OTHERS[op], lhs, rhs)
            yield from (Binary(op, new, rhs) for new in otherwise(lhs))
            yield from (Binary(op, lhs, new) for new in otherwise(rhs))
        case Select(cond, then, other):
            yield Select(cond, other, then)
            yield from (Select(new, then, other) for new in otherwise(cond))
            yield from (Select(cond, new, other) for new in otherwise(then))
            yield from (Select(cond, then, new) for new in otherwise(other))
