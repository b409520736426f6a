"""What an epilogue computes, one step at a time, before tensors are numbered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wsched.fusion import DataType

__all__ = ["REDUCED", "Builder", "Dims", "Operand", "Step"]

Dims = tuple[str, ...]
"""The dimensions of a tensor as those of the matmul's result that they stand for: ``("N",)``."""


REDUCED = {"sum": "sum", "max": "max", "min": "min"}
"""Reductions of ``fd.ops``, by what they are in a fusion."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One value; two steps are the same only if they are the same object.

    Args:
        op: ``input``, ``mma``, ``matmul`` (the result before anyone rounded it), ``cast``, a
            key of ``lowering.kernel.pointwise.OPS``, or one of ``REDUCED``.
        dtype: type of the value.
        inputs: what it is computed from.
        spread: the dimensions along which it differs; it is broadcast along the others.
        weak: whether it is made from run-time scalars and numbers only, which widen nothing.
        source: of an input or a matmul, its name in the definition.
        axes: of an input, its dimensions; ``"1"`` for those of size 1.
        dims: of an input, the dimensions of the matmul's result that its own are read along.
    """

    op: str
    dtype: DataType
    inputs: tuple[Step | float, ...]
    spread: frozenset[str]
    weak: bool = False
    source: str = ""
    axes: Dims = ()
    dims: Dims = ()


Operand = Step | float


class Builder(Protocol):
    """What a composite operation is made with."""

    def pointwise(self, op: str, *operands: Operand) -> Operand:
        """An operation, types promoted."""
        ...

    def cast(self, x: Operand, to: DataType) -> Operand:
        """A cast."""
        ...
