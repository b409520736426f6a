"""Shifts and masks of a definition, followed: which bits of which words a tensor's elements are.

nvFuser has no integers of 4 bits. A definition has eight of them in each word of an ``Int32`` input
and takes them apart: shifted by a vector of numbers, or by one after the other that ``cat`` puts
side by side, and masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.constants import Numbers
from wsched.importer.definition import Definition, Node, Ref, Value
from wsched.importer.layout import broadcast_flags
from wsched.importer.ranks import argument_of

__all__ = ["BITS", "PARTS", "Bits", "Dim", "Words", "integer", "known"]

PARTS, BITS = 8, 4
"""Numbers in a word, and bits of each."""

_WORD = 32
_SHIFTS = ("bitwise_right_shift", "logical_right_shift")
_INTEGERS = (DataType.Int, DataType.Int32)


class Dim(Enum):
    """What a dimension counts."""

    ROWS = "rows"
    WORDS = "the words of a row"
    PARTS = "parts of a word"
    ONE = "nothing: one element that is repeated"


Part = tuple[int, int]
"""How far a word is shifted, and its mask then: ``word >> shift & mask``, of a word with a sign and
as many bits as a mask has."""

_EACH: tuple[Part, ...] = tuple((BITS * n, (1 << BITS) - 1) for n in range(PARTS))


@dataclass(frozen=True, slots=True)
class Words:
    """Elements that are bits of the words of an input.

    Args:
        source: the input, [N, K / 8].
        dims: what each dimension counts.
        parts: of each word, as many as there are along ``Dim.PARTS``, else one.
    """

    source: str
    dims: tuple[Dim, ...] = (Dim.ROWS, Dim.WORDS)
    parts: tuple[Part, ...] = ((0, -1),)

    @property
    def whole(self) -> bool:
        """Whether they are the words."""
        return self.parts == ((0, -1),)

    @property
    def numbers(self) -> bool:
        """Whether they are the integers of 4 bits in their order."""
        return (self.dims, self.parts) == ((Dim.ROWS, Dim.WORDS, Dim.PARTS), _EACH)

    def __str__(self) -> str:
        shifts, masks = ([p[at] for p in self.parts] for at in (0, 1))
        alike = masks[0] if len(set(masks)) == 1 else masks
        counted = ", ".join(d.value for d in self.dims if d is not Dim.ONE)
        return f"the words of {self.source} by {counted}, shifted by {shifts}, masks {alike}"


@dataclass(frozen=True, slots=True)
class _Vector:
    """Integers that a definition makes of nothing, along ``Dim.PARTS``."""

    dims: tuple[Dim, ...]
    values: tuple[int, ...]


def known(numbers: Numbers, value: Value) -> float | None:
    """The number that a value is in every call; None if it is none."""
    try:
        return numbers.of(value)
    except UnsupportedError:
        return None


def integer(numbers: Numbers, value: Value) -> int | None:
    """The integer that a value is in every call; None if it is none."""
    found = known(numbers, value)
    return int(found) if found is not None and found.is_integer() else None


@dataclass(slots=True)
class Bits:
    """A walk over operations in their order.

    Args:
        definition: whose they are.
        numbers: what it computes of constants.
        found: the elements of its tensors, of those that are bits.
    """

    definition: Definition
    numbers: Numbers
    found: dict[str, Words] = field(default_factory=dict)
    _vectors: dict[str, _Vector] = field(default_factory=dict)

    def visit(self, node: Node) -> bool:
        """Follow an operation; whether its results are bits, or what words are shifted by."""
        name = node.results[0]
        made = self._made(node)
        if isinstance(made, Words):
            self.found[name] = made
        elif made is not None:
            self._vectors[name] = made
        return made is not None

    def _made(self, node: Node) -> Words | _Vector | None:
        match node.op:
            case "define_tensor":
                shape = node.get("shape")
                matrix = isinstance(shape, tuple) and len(shape) == 2
                words = matrix and node.get("dtype") is DataType.Int32
                return Words(node.results[0]) if words else None
            case "iota":
                return self._iota(node)
            case "pad":
                return self._padded(node)
            case "cat":
                return self._joined(node)
            case "add" | "mul" | "bitwise_and" | "bitwise_right_shift" | "logical_right_shift":
                return self._of_two(node)
        source = self._of(node.operands[0]) if node.operands else None
        if source is None:
            return None
        match node.op:
            case "broadcast":
                own = iter(source.dims)
                dims = tuple(Dim.ONE if new else next(own) for new in broadcast_flags(node))
                return replace(source, dims=dims)
            case "expand":
                shape = argument_of(node, "shape")
                same = isinstance(shape, tuple) and len(shape) == len(source.dims)
                return source if same and Dim.PARTS in source.dims else None
            case "set":
                return source
        return None

    def _of(self, value: Value) -> Words | _Vector | None:
        name = value.name if isinstance(value, Ref) else ""
        return self.found.get(name) or self._vectors.get(name)

    def _iota(self, node: Node) -> _Vector | None:
        given = [argument_of(node, name) for name in ("length", "start", "step")]
        length, start, step = (
            default if v is None else integer(self.numbers, v)
            for v, default in zip(given, (None, 0, 1), strict=True)
        )
        if length != PARTS or start is None or step is None:
            return None
        return _Vector((Dim.PARTS,), tuple(start + n * step for n in range(length)))

    def _of_two(self, node: Node) -> Words | _Vector | None:
        """A shift or mask of words; of vectors also sums and products."""
        x, y = (self._of(v) or integer(self.numbers, v) for v in node.arguments[:2])
        if node.op not in _SHIFTS and isinstance(y, Words):
            x, y = y, x
        if node.op not in (*_SHIFTS, "bitwise_and"):
            return _vector(node.op, x, y)
        if not isinstance(x, Words) or y is None or isinstance(y, Words):
            return None
        dims, by = x.dims, (y,) if isinstance(y, int) else y.values
        if not isinstance(y, int):
            joined = _joined_dims(x.dims, y.dims)
            if joined is None:
                return None
            dims = joined
        both = range(max(len(x.parts), len(by)))
        parts = tuple(
            _applied(node.op, x.parts[n % len(x.parts)], by[n % len(by)]) for n in both
        )  # fmt: skip
        return None if None in parts else replace(x, dims=dims, parts=tuple(p for p in parts if p))

    def _padded(self, node: Node) -> Words | None:
        """One part between nothings: what ``cat`` of nvFuser is put together from."""
        words, widths = self._of(node.operands[0]), argument_of(node, "pad_widths")
        filled = node.argument("value", 2)
        value = 0 if filled is None else integer(self.numbers, filled)
        if not isinstance(words, Words) or not isinstance(widths, tuple) or value != 0:
            return None
        found = [integer(self.numbers, w) for w in widths]
        before, behind = (*found[:2], 0, 0)[:2]
        last = words.dims[-1] is Dim.ONE and len(words.parts) == 1
        if not last or before is None or behind is None or {*found[2:]} - {0}:
            return None
        if min(before, behind) < 0 or before + 1 + behind != PARTS:
            return None
        nothing = ((0, 0),)
        parts = (*nothing * before, *words.parts, *nothing * behind)
        return replace(words, dims=(*words.dims[:-1], Dim.PARTS), parts=parts)

    def _joined(self, node: Node) -> Words | None:
        """Parts side by side; of padded ones each is one of them."""
        listed, along = node.argument("tensors", 0), node.get("dim")
        given = [self._of(v) for v in listed] if isinstance(listed, tuple) else []
        words = [w for w in given if isinstance(w, Words)]
        if len(words) != PARTS or len(given) != PARTS or not isinstance(along, int):
            return None
        first, dims = words[0], words[0].dims
        if any((w.source, w.dims) != (first.source, dims) for w in words):
            return None
        wanted = Dim.PARTS if node.get("manual_padding") else Dim.ONE
        if along % len(dims) != len(dims) - 1 or dims[-1] is not wanted:
            return None
        if wanted is Dim.ONE:
            parts = tuple(w.parts[0] for w in words)
        else:
            columns = [[p for p in column if p[1]] for column in zip(*(w.parts for w in words),
                                                                     strict=True)]  # fmt: skip
            if any(len(column) != 1 for column in columns):
                return None
            parts = tuple(column[0] for column in columns)
        return replace(first, dims=(*dims[:-1], Dim.PARTS), parts=parts)


def _vector(op: str, x: object, y: object) -> _Vector | None:
    """A sum or product of a vector and a number."""
    vector, number = (x, y) if isinstance(x, _Vector) else (y, x)
    if not isinstance(vector, _Vector) or not isinstance(number, int):
        return None
    made = (v + number if op == "add" else v * number for v in vector.values)
    return replace(vector, values=tuple(made))


def _joined_dims(words: Sequence[Dim], vector: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """Those of both, aligned at the end; None where one has parts and the other something else."""
    if len(vector) > len(words):
        return None
    vector = (*(Dim.ONE,) * (len(words) - len(vector)), *vector)
    pairs = list(zip(words, vector, strict=True))
    if any(Dim.ONE not in pair and pair != (Dim.PARTS, Dim.PARTS) for pair in pairs):
        return None
    return tuple(v if w is Dim.ONE else w for w, v in pairs)


def _applied(op: str, part: Part, by: int) -> Part | None:
    """A shift or mask of bits; None for a shift by as many as there are, or none."""
    shift, mask = part
    if op == "bitwise_and":
        return shift, mask & _signed(by)
    if not 0 <= by < _WORD or shift + by >= _WORD:
        return None
    if op == "logical_right_shift" and by:
        mask &= (1 << _WORD) - 1
    return shift + by, mask >> by


def _signed(mask: int) -> int:
    """The number with a sign that has the bits of a word's mask."""
    mask &= (1 << _WORD) - 1
    return mask - (1 << _WORD) if mask >> (_WORD - 1) else mask
