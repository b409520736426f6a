"""Tensors that are one matrix [N, K] element by element, and how a definition looks at them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.bits import BITS, PARTS, Bits, Words, integer
from wsched.importer.constants import Numbers
from wsched.importer.definition import Definition, Node, Ref, Value, text_of
from wsched.importer.ranks import argument_of

__all__ = ["OfGroups", "Views", "Weight"]


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor that is computed element by element of an input, [N, K].

    Args:
        source: the input.
        flat: what it is called as a matrix [N, K], without its scale.
        span: of a view [N, K / span, span]; 0 of a matrix.
        turned: whether it is a matrix [K, N].
        exact: what ``flat`` is a cast of to a type that has all its numbers; "" of others.
        most: the largest absolute value where elements are integers; 0 where that is not known.
        typed: whether a definition has them as a type of integers.
        zero: the numbers that are taken from groups first, and K of a group.
        scale: those that groups count times, likewise.
    """

    source: str
    flat: str
    span: int = 0
    turned: bool = False
    exact: str = ""
    most: int = 0
    typed: bool = False
    zero: tuple[str, int] | None = None
    scale: tuple[str, int] | None = None

    @property
    def by_groups(self) -> bool:
        """Whether it is computed with numbers of groups."""
        return self.zero is not None or self.scale is not None


@dataclass(frozen=True, slots=True)
class OfGroups:
    """Numbers of groups with a dimension along which they are the same.

    Args:
        source: they themselves, [N, K / span].
        span: K of a group, 0 while that dimension has one element.
        flat: whether they are a matrix [N, K].
    """

    source: str
    span: int = 0
    flat: bool = False


@dataclass
class Views:
    """What is known of the tensors of a definition on a walk over its operations.

    Attributes:
        bits: those that are bits of words.
        weights: those that are a matrix.
        groups: those that are numbers of groups.
    """

    definition: Definition
    numbers: Numbers = field(init=False)
    bits: Bits = field(init=False)
    weights: dict[str, Weight] = field(default_factory=dict)
    groups: dict[str, OfGroups] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = Numbers(self.definition)
        self.bits = Bits(self.definition, self.numbers)

    def weight(self, value: Value) -> Weight | None:
        """What is known of an operand; integers of words, [N, K / 8, 8], become it here."""
        name = value.name if isinstance(value, Ref) else ""
        words = self.words(value)
        if words is not None and words.numbers and name not in self.weights:
            source, most = words.source, (1 << BITS) - 1
            self.weights[name] = Weight(source, source, PARTS, False, source, most, True)
        return self.weights.get(name)

    def words(self, value: Value) -> Words | None:
        """The bits of words that an operand is."""
        return self.bits.found.get(value.name) if isinstance(value, Ref) else None

    def group(self, value: Value) -> OfGroups | None:
        """The numbers of groups that an operand is."""
        return self.groups.get(value.name) if isinstance(value, Ref) else None

    def of_words(self, weight: Weight) -> bool:
        """Whether a weight is of words, so that nothing is left of a definition that reads it
        otherwise.
        """
        return weight.source in self.bits.found

    def type_of(self, source: str) -> DataType:
        """The type of an input's elements."""
        if source in self.bits.found:
            return DataType.UInt4
        node = self.definition.node(source)
        dtype = None if node is None else node.get("dtype", DataType.Float)
        return dtype if isinstance(dtype, DataType) else DataType.Float

    def shape(self, source: str) -> tuple[int | None, int | None]:
        """Sizes [N, K] of an input that the definition fixes."""
        node = self.definition.node(source)
        shape = None if node is None else node.get("shape")
        sizes = shape if isinstance(shape, tuple) else (None, None)
        rows, columns = (n if isinstance(n, int) and n >= 0 else None for n in sizes)
        if source in self.bits.found and columns is not None:
            columns *= PARTS
        return rows, columns

    def integers(self, node: Node) -> Node:
        """An input of words as one of integers."""
        rows, columns = (-1 if n is None else n for n in self.shape(node.results[0]))
        said: dict[str, Value] = {"shape": (rows, columns), "dtype": DataType.UInt4}
        return replace(node, kwargs=tuple((k, said.get(k, v)) for k, v in node.kwargs))

    def reshaped(self, node: Node, weight: Weight) -> Weight | None:
        """A matrix, or a view by groups, where rows stay what they are; None of others.

        Raises:
            UnsupportedError: of others that are of words, or scaled by groups.
        """
        said = argument_of(node, "new_shape")
        given = said if isinstance(said, tuple) else ()
        sizes = [integer(self.numbers, v) for v in given]
        rows, columns = self.shape(weight.source)
        inner = 1
        for n in sizes[1:]:
            inner *= n or 0
        whole = sizes[:1] == [-1] and rows is not None and inner == columns
        same = whole or (bool(given) and self._counts_rows(given[0]))
        same = same or (rows is not None and sizes[:1] == [rows])
        span = (sizes[2] or -1) if len(sizes) == 3 else 0 if len(sizes) == 2 else -1
        if not weight.turned and same and span >= 0:
            return replace(weight, span=span)
        if self.of_words(weight) or weight.by_groups:
            raise UnsupportedError(
                f"fd.ops.reshape of {weight.source} [N, K] to {text_of(said)}",
                "[N, K] and [N, K / group, group]",
            )
        return None

    def _counts_rows(self, size: Value) -> bool:
        """Whether a size is that of the rows of a weight."""
        node = self.definition.node(size.name) if isinstance(size, Ref) else None
        if node is None or node.op != "size" or argument_of(node, "dim") != 0:
            return False
        weight = self.weight(node.operands[0])
        of_words = self.words(node.operands[0]) is not None
        return of_words or (weight is not None and not weight.turned)

    def expanded(self, node: Node, group: OfGroups) -> OfGroups | None:
        """Numbers of groups repeated for all of a group."""
        shape = argument_of(node, "shape")
        if not isinstance(shape, tuple) or len(shape) != 3:
            return None
        size = integer(self.numbers, shape[-1])
        return replace(group, span=size) if size is not None and size > 1 else None

    def joined(self, node: Node, group: OfGroups) -> OfGroups | None:
        """The same as a matrix [N, K]."""
        shape = argument_of(node, "new_shape")
        matrix = isinstance(shape, tuple) and len(shape) == 2
        return replace(group, flat=True) if matrix and group.span else None
