"""Numbers by an element's place: what ``iota`` makes, what is computed of it, and masks by it.

A tensor of these is a sum of indices, each times a whole number. A comparison of two is whether
another such sum is below zero, which threads know of their elements without reading anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lowering.ground.errors import UnsupportedError
from lowering.ground.types import MOST_STEEP
from wsched.fusion import DataType
from wsched.importer.constants import Numbers
from wsched.importer.definition import Definition, Node, Ref, Value, text_of
from wsched.importer.ops import MATMULS
from wsched.importer.ranks import argument_of
from wsched.importer.steps import Dims, Operand, Places, Step

__all__ = ["Lengths", "compared", "iota", "is_index", "recast"]

_TYPES = (DataType.Int, DataType.Index, DataType.Int32)
"""The widest first; ``Index`` is nvFuser's own, which ``triu`` is made with."""
_MOST = 1 << 30
"""Numbers beside indices are at most so large; so what is computed of both has 64 bits."""

_COMPARED = "comparisons of indices with each other and with whole numbers, fd.ops.{add, sub, neg}"
_MORE = f"{_COMPARED}, and fd.ops.mul by a whole number"


class Making(Protocol):
    """What steps are made with."""

    def make(
        self, op: str, dtype: DataType, *inputs: Operand, places: Places | None = None
    ) -> Step:
        """A step, the one that there is if it was made before."""
        ...

    def pointwise(self, op: str, *operands: Operand) -> Operand:
        """An operation on other operands."""
        ...


@dataclass(frozen=True, slots=True)
class Lengths:
    """What an ``iota`` says of the sizes of the matmul's dimensions.

    Args:
        definition: what they stand in.
        numbers: what it computes of constants alone.
        found: sizes by dimension.
    """

    definition: Definition
    numbers: Numbers
    found: dict[str, int]

    def repeats(self, node: Node, axis: str) -> bool:
        """Take the size of ``axis`` from an ``iota`` along it; whether that has one element, which
        is repeated.

        Raises:
            UnsupportedError: it is the size of what is neither an input nor a matmul's result, or
                another one than is known.
        """
        length = argument_of(node, "length")
        made = self.definition.node(length.name) if isinstance(length, Ref) else None
        if made is not None and made.op == "size":
            length = self._declared(made)
            if length == -1:  # nvFuser checks it
                return False
        size = _whole("length", self.numbers.of(length))
        if size != 1 and self.found.setdefault(axis, size) != size:
            sizes = f"{self.found[axis]} and {size}"
            raise UnsupportedError(f"fd.ops.iota along {axis} of {sizes}", f"one size of {axis}")
        return size == 1

    def _declared(self, size: Node) -> Value:
        """What a definition says of the size of a tensor, -1 where it leaves it open."""
        of, dim = size.operands[0], argument_of(size, "dim")
        made = self.definition.node(of.name) if isinstance(of, Ref) else None
        if made is not None and made.op in MATMULS:
            return -1
        shape = None if made is None or made.op != "define_tensor" else made.get("shape")
        if not isinstance(shape, tuple) or not isinstance(dim, int) or dim >= len(shape):
            what = f"fd.ops.iota of the size of {text_of(of)}"
            raise UnsupportedError(what, "that of an input or of a matmul's result")
        return shape[dim]


def iota(steps: Making, node: Node, dims: Dims, lengths: Lengths) -> Step:
    """The step of an ``iota`` along the one dimension ``dims``.

    Raises:
        UnsupportedError: one of another type, or with a start, a step or a length that is no whole
            number of the definition.
    """
    dtype = argument_of(node, "dtype") or DataType.Int
    if dtype not in _TYPES or not isinstance(dtype, DataType):
        raise UnsupportedError(f"fd.ops.iota of {text_of(dtype)}", ", ".join(map(str, _TYPES)))
    if lengths.numbers.reads_tensor(node):
        what = f"line {node.line}: fd.ops.iota of what is known at run time"
        raise UnsupportedError(what, "of numbers, and of the size of a tensor")
    (axis,) = dims
    start, step = (
        _given(lengths.numbers, name, argument_of(node, name), default)
        for name, default in (("start", 0), ("step", 1))
    )
    one = axis == "1" or lengths.repeats(node, axis)
    return _made(steps, dtype, Places.of({} if one else {axis: step}, start))


def _given(numbers: Numbers, name: str, value: Value, default: int) -> int:
    return default if value is None else _whole(name, numbers.of(value))


def _whole(name: str, value: float) -> int:
    if not value.is_integer():
        raise UnsupportedError(f"fd.ops.iota with {name}={value}", "whole numbers")
    return int(value)


def _made(steps: Making, dtype: DataType, places: Places) -> Step:
    """The step of such numbers.

    Raises:
        UnsupportedError: they may have more bits than a comparison.
    """
    for axis, factor in places.terms:
        if abs(factor) > MOST_STEEP:
            what = f"an index along {axis} times {factor}"
            raise UnsupportedError(what, f"factors from -{MOST_STEEP} to {MOST_STEEP}")
    if abs(places.first) > _MOST:
        what = f"indices beside the number {places.first}"
        raise UnsupportedError(what, f"numbers from -{_MOST} to {_MOST}")
    return steps.make("index", dtype, places=places)


def is_index(x: Operand) -> bool:
    """Whether it is a number by its place, and no mask."""
    return isinstance(x, Step) and x.places is not None and x.dtype is not DataType.Bool


def recast(steps: Making, x: Operand, cast: Node) -> Step | None:
    """A cast of such numbers, to 64 bits; None of anything else.

    Raises:
        UnsupportedError: to another type.
    """
    if not isinstance(x, Step) or x.places is None or not is_index(x):
        return None
    to = cast.get("dtype")
    if to is not DataType.Int:
        what = f"fd.ops.cast of an index to {text_of(to)}"
        raise UnsupportedError(what, "comparisons of indices, and casts to Int")
    return _made(steps, DataType.Int, x.places)


def compared(steps: Making, op: str, operands: tuple[Operand, ...]) -> Operand:
    """An operation among whose operands are indices: numbers of the same kind, or a mask.

    Raises:
        UnsupportedError: an operation that makes neither, or an operand that is no whole number.
    """
    sums = [_places(op, x) for x in operands]
    kinds = [x.dtype for x in operands if isinstance(x, Step)]
    dtype = min(kinds, key=_TYPES.index)
    match op, sums:
        case "neg", [x]:
            return _made(steps, dtype, x.times(-1))
        case "add", [x, y]:
            return _made(steps, dtype, x.plus(y))
        case "sub", [x, y]:
            return _made(steps, dtype, x.plus(y.times(-1)))
        case "mul", [x, y] if not (x.terms and y.terms):
            x, y = (x, y) if x.terms else (y, x)
            return _made(steps, dtype, x.times(y.first))
        case _, [x, y] if op in _BELOW:
            return _below(steps, *((x, y, 0), (y, x, 0), (x, y, 1), (y, x, 1))[_BELOW[op]])
        case "eq", [x, y]:
            return steps.pointwise("logical_and", _below(steps, x, y, 1), _below(steps, y, x, 1))
        case "ne", [x, y]:
            return steps.pointwise("logical_or", _below(steps, x, y, 0), _below(steps, y, x, 0))
    raise UnsupportedError(f"fd.ops.{op} of an index", _MORE)


_BELOW: Mapping[str, int] = {"lt": 0, "gt": 1, "le": 2, "ge": 3}


def _below(steps: Making, x: Places, y: Places, more: int) -> Step:
    """Whether ``x < y + more``."""
    found = _made(steps, DataType.Int, x.plus(y.times(-1)).plus(Places.of({}, -more)))
    return steps.make("index", DataType.Bool, places=found.places)


def _places(op: str, x: Operand) -> Places:
    """An operand as a sum of indices."""
    if isinstance(x, Step):
        if x.places is None or not is_index(x):
            raise UnsupportedError(f"fd.ops.{op} of an index and {x.dtype}", _MORE)
        return x.places
    if not float(x).is_integer():
        raise UnsupportedError(f"fd.ops.{op} of an index and {x}", _MORE)
    return Places.of({}, int(x))
