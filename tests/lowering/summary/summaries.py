"""Summaries of every kind, and what they should come to."""

from __future__ import annotations

from typing import Any

import numpy as np

from wsched.fusion import DataType
from wsched.fusion.summary import Extent, Result, Summary, Value

__all__ = ["deviation", "expected", "rms", "scaled", "total"]

TENSOR, KEPT, ONE = Extent.TENSOR, Extent.KEPT, Extent.ONE
F32 = DataType.Float


def kept(rank: int, over: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions that are left."""
    return tuple(d for d in range(rank) if d not in over)


def rms(rank: int, over: tuple[int, ...], dtype: DataType = DataType.BFloat16) -> Summary:
    """``rsqrt(sum(x * x) * 0.01 + s)`` of a tensor and a number."""
    values = (
        Value("s", "input", F32, (), ONE),
        Value("x", "input", dtype, (), TENSOR),
        Value("wide", "cast", F32, ("x",), TENSOR),
        Value("square", "mul", F32, ("wide", "wide"), TENSOR),
        Value("total", "sum", F32, ("square",), KEPT),
        Value("mean", "mul", F32, ("total", 0.01), KEPT),
        Value("some", "add", F32, ("mean", "s"), KEPT),
        Value("r", "rsqrt", F32, ("some",), KEPT),
    )
    return Summary(rank, over, values, (Result("r", kept(rank, over)),))


def scaled(rank: int, over: tuple[int, ...], op: str, dtype: DataType) -> Summary:
    """``v * op(exp(x - y))`` of two tensors and what is kept, rounded to the tensors' type."""
    values = (
        Value("x", "input", dtype, (), TENSOR),
        Value("v", "input", F32, (), KEPT),
        Value("y", "input", dtype, (), TENSOR),
        Value("apart", "sub", F32, ("x", "y"), TENSOR),
        Value("e", "exp", F32, ("apart",), TENSOR),
        Value("most", op, F32, ("e",), KEPT),
        Value("made", "mul", dtype, ("v", "most"), KEPT),
    )
    return Summary(rank, over, values, (Result("made", kept(rank, over)),))


def total(
    rank: int = 3, over: tuple[int, ...] = (0,), dtype: DataType = DataType.BFloat16
) -> Summary:
    """The sum of parts, rounded."""
    values = (
        Value("part", "input", F32, (), TENSOR),
        Value("whole", "sum", dtype, ("part",), KEPT),
    )
    return Summary(rank, over, values, (Result("whole", kept(rank, over)),))


def deviation(rank: int, over: tuple[int, ...]) -> Summary:
    """Mean and mean square of a tensor of fp32, two results of one pass."""
    values = (
        Value("x", "input", F32, (), TENSOR),
        Value("square", "mul", F32, ("x", "x"), TENSOR),
        Value("sum_x", "sum", F32, ("x",), KEPT),
        Value("sum_square", "sum", F32, ("square",), KEPT),
        Value("mean", "mul", F32, ("sum_x", 0.5), KEPT),
        Value("flat", "mul", F32, ("mean", "mean"), KEPT),
        Value("half", "mul", F32, ("sum_square", 0.5), KEPT),
        Value("var", "sub", F32, ("half", "flat"), KEPT),
    )
    ones = tuple(None if d in over else d for d in range(rank))
    return Summary(rank, over, values, (Result("mean", kept(rank, over)), Result("var", ones)))


_FUNCTIONS: dict[str, Any] = {
    "mul": np.multiply, "add": np.add, "sub": np.subtract, "exp": np.exp,
    "rsqrt": lambda x: 1 / np.sqrt(x), "cast": lambda x: x,
}  # fmt: skip
_REDUCED: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}


def expected(summary: Summary, given: dict[str, Any]) -> list[Any]:
    """The results in fp64."""
    found = {name: np.asarray(x, np.float64) for name, x in given.items()}
    for v in summary.values:
        args = [found[x] if isinstance(x, str) else x for x in v.inputs]
        if v.op in _REDUCED:
            found[v.name] = _REDUCED[v.op](args[0], axis=summary.over)
        elif v.op != "input":
            found[v.name] = _FUNCTIONS[v.op](*args)
    shape = next(found[v.name].shape for v in summary.inputs if v.extent is TENSOR)
    return [found[r.value].reshape(r.shape(shape)) for r in summary.results]
