"""What pointwise operations mean: one table for import, machine, emitter and documentation."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OPS", "Pointwise"]


@dataclass(frozen=True, slots=True)
class Pointwise:
    """One operation.

    Args:
        arity: number of arguments.
        predicate: whether the result is a predicate.
        doc: what it computes, in terms of ``x``, ``y``, ``z``.
        conditions: how many of the first arguments are predicates; the others are values. A number
            as a predicate holds if it is not 0.
    """

    arity: int
    predicate: bool
    doc: str
    conditions: int = 0


OPS: dict[str, Pointwise] = {
    "add": Pointwise(2, False, "x + y"),
    "sub": Pointwise(2, False, "x - y"),
    "mul": Pointwise(2, False, "x * y"),
    "div": Pointwise(2, False, "x / y"),
    "neg": Pointwise(1, False, "-x"),
    "abs": Pointwise(1, False, "|x|"),
    "relu": Pointwise(1, False, "x if x > 0 else 0, NaN stays NaN"),
    "exp": Pointwise(1, False, "e ** x"),
    "exp2": Pointwise(1, False, "2 ** x"),
    "expm1": Pointwise(1, False, "e ** x - 1"),
    "log": Pointwise(1, False, "natural logarithm"),
    "log2": Pointwise(1, False, "logarithm to base 2"),
    "log10": Pointwise(1, False, "logarithm to base 10"),
    "log1p": Pointwise(1, False, "natural logarithm of 1 + x"),
    "sqrt": Pointwise(1, False, "square root"),
    "rsqrt": Pointwise(1, False, "1 / sqrt(x)"),
    "reciprocal": Pointwise(1, False, "1 / x"),
    "tanh": Pointwise(1, False, "hyperbolic tangent"),
    "sin": Pointwise(1, False, "sine"),
    "cos": Pointwise(1, False, "cosine"),
    "erf": Pointwise(1, False, "error function"),
    "erfc": Pointwise(1, False, "1 - erf(x)"),
    "ceil": Pointwise(1, False, "the next integer above"),
    "floor": Pointwise(1, False, "the next integer below"),
    "trunc": Pointwise(1, False, "the next integer towards 0"),
    "round": Pointwise(1, False, "the nearest integer, the even one of two"),
    "frac": Pointwise(1, False, "x - trunc(x)"),
    "sigmoid": Pointwise(1, False, "1 / (1 + e ** -x)"),
    "silu": Pointwise(1, False, "x * sigmoid(x)"),
    "pow": Pointwise(2, False, "x ** y"),
    "minimum": Pointwise(2, False, "the smaller; NaN if either is"),
    "maximum": Pointwise(2, False, "the larger; NaN if either is"),
    "where": Pointwise(3, False, "y where x holds, else z", 1),
    "lt": Pointwise(2, True, "x < y"),
    "le": Pointwise(2, True, "x <= y"),
    "gt": Pointwise(2, True, "x > y"),
    "ge": Pointwise(2, True, "x >= y"),
    "eq": Pointwise(2, True, "x == y"),
    "ne": Pointwise(2, True, "x != y"),
    "isnan": Pointwise(1, True, "x is NaN"),
    "isinf": Pointwise(1, True, "x is an infinity"),
    "isfinite": Pointwise(1, True, "x is neither NaN nor an infinity"),
    "logical_and": Pointwise(2, True, "x and y", 2),
    "logical_or": Pointwise(2, True, "x or y", 2),
    "logical_not": Pointwise(1, True, "not x", 1),
    "bitwise_and": Pointwise(2, True, "x and y on predicates", 2),
    "bitwise_or": Pointwise(2, True, "x or y on predicates", 2),
}
