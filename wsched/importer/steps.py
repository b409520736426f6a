"""What an epilogue computes, one step at a time, before tensors are numbered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.definition import Definition

__all__ = ["REDUCED", "Builder", "Dims", "Operand", "Places", "Step", "inputs_of", "unread_inputs"]

Dims = tuple[str, ...]
"""The dimensions of a tensor as those of the matmul's result that they stand for: ``("N",)``."""


REDUCED = {"sum": "sum", "max": "max", "min": "min"}
"""Reductions of ``fd.ops``, by what they are in a fusion."""


@dataclass(frozen=True, slots=True)
class Places:
    """A number for each element: the sum of its indices, each times its factor, and a number.

    Args:
        terms: the dimensions that have a part in it, in order, with their factors.
        first: what is added to that.
    """

    terms: tuple[tuple[str, int], ...]
    first: int

    @classmethod
    def of(cls, factors: Mapping[str, int], first: int) -> Places:
        """With factors by dimension, of which those that are 0 are left out."""
        return cls(tuple(sorted((axis, f) for axis, f in factors.items() if f)), first)

    def plus(self, other: Places) -> Places:
        """The sum of both."""
        factors = Counter(dict(self.terms))
        factors.update(dict(other.terms))
        return Places.of(factors, self.first + other.first)

    def times(self, factor: int) -> Places:
        """It multiplied."""
        return Places.of({axis: f * factor for axis, f in self.terms}, self.first * factor)


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One value; two steps are the same only if they are the same object.

    Args:
        op: ``input``, ``mma``, ``matmul`` (a result that its type is not computed in: only a cast
            to Float reads it), ``cast``, ``index``, a key of ``lowering.kernel.pointwise.OPS``, or
            one of ``REDUCED``.
        dtype: type of the value.
        inputs: what it is computed from.
        spread: the dimensions along which it differs; it is broadcast along the others.
        weak: whether it is made from run-time scalars and numbers only, which widen nothing.
        source: of an input or a matmul, its name in the definition.
        axes: of an input, its dimensions; ``"1"`` for those of size 1.
        dims: of an input, the dimensions of the matmul's result that its own are read along.
        rounded: of a largest or least element, the type that elements are rounded to.
        places: of an ``index`` the numbers; one of Bool holds where they are below 0.
    """

    op: str
    dtype: DataType
    inputs: tuple[Step | float, ...]
    spread: frozenset[str]
    weak: bool = False
    source: str = ""
    axes: Dims = ()
    dims: Dims = ()
    rounded: DataType | None = None
    places: Places | None = None


Operand = Step | float


def inputs_of(definition: Definition, steps: Iterable[Step]) -> list[Step]:
    """The inputs among the steps of a definition, in its order.

    Raises:
        UnsupportedError: no step reads one of them.
    """
    found = {s.source: s for s in steps if s.op == "input"}
    order = [n.results[0] for n in definition.inputs]
    if unread := [n for n in order if n not in found]:
        raise unread_inputs(*unread)
    return [found[name] for name in order]


def unread_inputs(*names: str) -> UnsupportedError:
    """A kernel has no parameter for what it does not read."""
    what = f"the input {', '.join(names)}, which nothing reads,"
    return UnsupportedError(what, "inputs that are read")


class Builder(Protocol):
    """What a composite operation is made with."""

    def pointwise(self, op: str, *operands: Operand) -> Operand:
        """An operation, types promoted."""
        ...

    def cast(self, x: Operand, to: DataType) -> Operand:
        """A cast."""
        ...
