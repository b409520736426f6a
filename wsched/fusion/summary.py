"""What rows or columns of a tensor come to: reductions of it, and pointwise operations around them.

A mean, the statistics of a norm, the scale of a tensor of 8 bits, the parts of a reduction put
together: each reads a tensor once and leaves a value for each of its rows or columns, or one of all
of it. No product of matrices is in it, so there is nothing to schedule but how it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import prod

from wsched.fusion.types import DataType

__all__ = ["REDUCTIONS", "Axis", "Extent", "Result", "Summary", "Value", "staged"]

REDUCTIONS = ("sum", "max", "min")
"""Of fp32: ``ReductionOp`` says what they are."""


class Axis(Enum):
    """What is reduced of a tensor whose dimensions are taken together to rows and columns."""

    ROWS = "rows"
    COLUMNS = "columns"
    ALL = "all"


class Extent(Enum):
    """Where a value differs."""

    TENSOR = "tensor"
    KEPT = "kept"
    ONE = "one"


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a summary.

    Args:
        name: a C identifier, each only once.
        op: ``input``, ``cast``, a key of ``lowering.kernel.pointwise.OPS``, or one of
            :data:`REDUCTIONS`.
        dtype: its type. Arithmetic is fp32, and rounded to it.
        inputs: names of values in front of it, and numbers.
        extent: whether there is one for each element of the tensor, for each that is kept, or one
            alone that no reduction has a part in.
    """

    name: str
    op: str
    dtype: DataType
    inputs: tuple[str | float, ...]
    extent: Extent


@dataclass(frozen=True, slots=True)
class Result:
    """A result.

    Args:
        value: its name.
        dims: for each of its dimensions that of the tensors which it is, None of size 1.
    """

    value: str
    dims: tuple[int | None, ...]

    def shape(self, tensor: Sequence[int]) -> tuple[int, ...]:
        """Sizes, from those of the tensors."""
        return tuple(1 if d is None else tensor[d] for d in self.dims)

    @property
    def order(self) -> tuple[int, ...]:
        """Its dimensions in the order of memory, which is that of the tensors; those of size 1 stay
        where they are.
        """
        kept = [(d, p) for p, d in enumerate(self.dims) if d is not None]
        moved = {p: by for (_, p), (_, by) in zip(kept, sorted(kept), strict=True)}
        return tuple(moved.get(p, p) for p in range(len(self.dims)))


@dataclass(frozen=True, slots=True)
class Summary:
    """Reductions of tensors of one shape over some of its dimensions, with what is around them.

    Args:
        rank: dimensions of the tensors.
        over: numbers of those that are reduced, one or more, in order.
        values: in an order in which they can be computed, the inputs in that of the caller. What
            has the extent of the tensor is read by what has it, too, and by reductions, which read
            nothing else.
        results: of the extent of what is kept, one or more.
    """

    rank: int
    over: tuple[int, ...]
    values: tuple[Value, ...]
    results: tuple[Result, ...]

    @property
    def axis(self) -> Axis:
        """What is reduced where the dimensions in front, the reduced ones and those behind are
        taken together.
        """
        if self.over[-1] < self.rank - 1:
            return Axis.ROWS
        return Axis.COLUMNS if self.over[0] else Axis.ALL

    @property
    def inputs(self) -> tuple[Value, ...]:
        """What is read."""
        return tuple(v for v in self.values if v.op == "input")

    @property
    def reductions(self) -> tuple[Value, ...]:
        """Its reductions."""
        return tuple(v for v in self.values if v.op in REDUCTIONS)

    @property
    def tensor(self) -> int:
        """Position of an input that has the extent of the tensors."""
        return next(at for at, v in enumerate(self.inputs) if v.extent is Extent.TENSOR)

    def value(self, name: str) -> Value:
        """The value of that name."""
        return next(v for v in self.values if v.name == name)

    def sizes(self, tensor: Sequence[int]) -> tuple[int, int, int]:
        """Elements in front of what is reduced, reduced, and behind it, if that is one run."""
        first, stop = self.over[0], self.over[-1] + 1
        return prod(tensor[:first]), prod(tensor[first:stop]), prod(tensor[stop:])


def staged(summary: Summary, parts: bool = False) -> tuple[Summary, ...]:
    """A summary as one or more that a kernel each can compute, the next one of the results of the
    one before and of those of its own inputs that are no tensors.

    A kernel reduces dimensions beside each other. All dimensions are the last one and then the
    others, so that many CTAs have a part in it; of what is small already they are one.

    Args:
        summary: what is computed.
        parts: whether the tensors are small already.
    """
    last = _last_run(summary, parts)
    if last == summary.over:
        return (summary,)
    left = tuple(d for d in range(summary.rank) if d not in last)
    names = {r.name: f"{r.name}_of_{summary.rank}" for r in summary.reductions}
    front = [v for v in summary.values if v.extent is not Extent.KEPT]
    front += [
        Value(names[r.name], r.op, DataType.Float, r.inputs, Extent.KEPT)
        for r in summary.reductions
    ]
    stored = tuple(Result(names[r.name], left) for r in summary.reductions)
    first = Summary(summary.rank, last, tuple(front), stored)
    rest = [Value(n, "input", DataType.Float, (), Extent.TENSOR) for n in names.values()]
    rest += [v for v in summary.values if v.extent is not Extent.TENSOR]
    made = [replace(v, inputs=(names[v.name],)) if v.name in names else v for v in rest]
    over = tuple(left.index(d) for d in summary.over if d not in last)
    results = tuple(
        Result(r.value, tuple(None if d is None else left.index(d) for d in r.dims))
        for r in summary.results
    )
    return first, *staged(Summary(len(left), over, tuple(made), results), parts=True)


def _last_run(summary: Summary, parts: bool) -> tuple[int, ...]:
    """The last dimensions that are reduced and lie beside each other."""
    *before, last = summary.over
    if len(summary.over) == summary.rank > 1 and not parts:
        return (last,)
    run = [last]
    while before and before[-1] == run[0] - 1:
        run.insert(0, before.pop())
    return tuple(run)
