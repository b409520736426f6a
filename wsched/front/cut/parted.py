"""Products of which only parts are read, as products of parts of their operands.

    y = linear(x, w);  silu(y[:, :n]) * y[:, n:]  =  silu(linear(x, w[:n])) * linear(x, w[n:])

Programs keep weights together that read one input, and take the product apart: the two halves of a
gated MLP, query, key and value. A view of a product ends its kernel. Products of the weight's parts
are matmuls of one operand, which one kernel may have with all that follows them; and what no part
has is not computed, such as the logits of all but the last token.

The parts are views of the weight, which lies as it did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from lowering.ground.expr import Const
from wsched.front.cut.looks import move_of, sliced
from wsched.front.cut.order import Orders
from wsched.front.cut.tensors import Tensors
from wsched.importer import Definition, Node
from wsched.importer.lists import MOST
from wsched.importer.ops import MATMULS

__all__ = ["products_of_parts", "whole_of"]

_PART = "@part"
"""Ends the name of a part, in front of its number."""

Box = tuple[tuple[int, int], ...]
"""First place and the one behind the last, along each dimension."""


def products_of_parts(definition: Definition, tensors: Tensors) -> Definition:
    """The definition with products whose parts alone are read as products of parts; itself where
    there is none.

    Parts that have an element in common stay parts of one product: it would be computed twice. So
    do those that are results: as views of the product they have its strides, and its memory.

    Args:
        definition: whose operations are in order.
        tensors: of it.
    """
    if not any(n.op in ("slice", "select") for n in definition.nodes):
        return definition
    writer = _Writer(definition, tensors, _looked_at(definition, tensors))
    for node in definition.nodes:
        writer.take(node)
    return replace(definition, nodes=tuple(writer.nodes)) if writer.changed else definition


def whole_of(name: str) -> str:
    """The product that a part of one is of; any other name as it is."""
    whole, found, number = name.rpartition(_PART)
    return whole if found and number.isdecimal() else name


@dataclass(slots=True)
class _Writer:
    """Writes a definition anew, products in parts.

    Args:
        definition: which they are of.
        tensors: of it.
        given: names of what the caller is given, or a view of.
        nodes: what is written.
    """

    definition: Definition
    tensors: Tensors
    given: frozenset[str]
    nodes: list[Node] = field(default_factory=list)
    _made: dict[str, str] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)
    _count: int = 0
    _written: dict[tuple[str, Box], str] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether a product is in parts."""
        return bool(self._made)

    def take(self, node: Node) -> None:
        """The next operation."""
        name = node.results[0]
        boxes = self._parts(node) if node.op in MATMULS else {}
        if boxes:
            made = dict[Box, str]()
            for part, box in boxes.items():
                if box not in made:
                    made[box] = self._named(name)
                    self._write(self._product(node, made[box], box))
                self._made[part] = made[box]
            self._gone |= {name, *boxes, *(n.results[0] for n in self._readers(name))}
        elif name not in self._gone:
            self._write(node)

    def _write(self, node: Node) -> None:
        """Enter an operation, which reads parts by their new names."""
        self.nodes.append(node.reading(self._made) if self._made.keys() & {*node.refs} else node)

    def _named(self, name: str) -> str:
        """A name for a part of a tensor."""
        self._count += 1
        return f"{name}{_PART}{self._count - 1}"

    def _readers(self, name: str) -> Iterator[Node]:
        return (n for n in self.definition.nodes if name in n.refs)

    # --- parts ----------------------------------------------------------------------------------

    def _parts(self, matmul: Node) -> dict[str, Box]:
        """The parts of a product that are read, by their names; empty where it is read whole."""
        shape = self._shape(matmul.results[0])
        if shape is None or matmul.results[0] in self.given or not self._has_parts(matmul):
            return {}
        found = dict[str, Box]()
        for reader in self._readers(matmul.results[0]):
            parts = self._parts_of(reader, shape)
            if not parts:
                return {}
            found |= parts
        if found.keys() & self.given:
            return {}
        boxes = [*dict.fromkeys(found.values())]
        whole = tuple((0, size) for size in shape)
        apart = all(_are_apart(*pair) for pair in combinations(boxes, 2))
        return found if apart and whole not in boxes and len(boxes) <= MOST else {}

    def _has_parts(self, matmul: Node) -> bool:
        """Whether operands are two tensors of matrices, of sizes that are numbers; beside a weight
        there may be a bias.
        """
        shapes = [self._shape(name) for name in matmul.refs]
        if None in shapes or len({*matmul.refs}) < len(shapes):
            return False
        first, second, *bias = (len(s or ()) for s in shapes)
        return (
            first > 1
            and (second == 2 if matmul.op == "linear" else second > 1)
            and bias in ([], [1])
        )

    def _parts_of(self, reader: Node, shape: tuple[int, ...]) -> dict[str, Box]:
        """The parts that an operation on a product reads; empty of any that reads more.

        One place of a dimension that a reshape has made of the last one is a part of that.
        """
        if reader.op == "slice":
            box = self._box(reader)
            return {} if box is None else {reader.results[0]: box}
        seen = self._shape(reader.results[0])
        if reader.op != "reshape" or seen is None or seen[:-2] != shape[:-1]:
            return {}
        count, width = seen[-2:]
        found = dict[str, Box]()
        for n in self._readers(reader.results[0]):
            move = move_of(n, self.tensors.types) if n.op == "select" else None
            if move is None or move.places[0] not in (len(seen) - 2, -2):
                return {}
            index = move.places[1]
            if not -count <= index < count:  # which whoever selects it refuses
                return {}
            first = index % count * width
            found[n.results[0]] = (*((0, size) for size in shape[:-1]), (first, first + width))
        return found

    def _box(self, node: Node) -> Box | None:
        """What a ``slice`` takes of a tensor; None where it leaves gaps, or is not told."""
        move, shape = move_of(node, self.tensors.types), self._shape(node.results[0])
        if move is None or shape is None or 0 in shape:
            return None
        return tuple((a, a + n) for a, n in zip(move.places, shape, strict=True))

    def _shape(self, name: str) -> tuple[int, ...] | None:
        dims = self.tensors[name].dims if name in self.tensors else None
        sizes = [d.extent.value for d in dims or () if isinstance(d.extent, Const)]
        return tuple(sizes) if dims is not None and len(sizes) == len(dims) else None

    # --- products -------------------------------------------------------------------------------

    def _product(self, matmul: Node, part: str, box: Box) -> Node:
        """The product of the parts of operands that a part is made of."""
        rows, columns = box[:-1], box[-1]
        first, second = matmul.refs[:2]
        if matmul.op == "linear":
            weight = self._part(second, (columns, None), matmul.line)
            names = {first: self._part(first, (*rows, None), matmul.line), second: weight}
            names |= {bias: self._part(bias, (columns,), matmul.line) for bias in matmul.refs[2:]}
        else:
            batches = rows[:-1]
            names = {
                first: self._part(first, (*batches, rows[-1], None), matmul.line),
                second: self._part(second, (*batches, None, columns), matmul.line),
            }
        return replace(matmul.reading(names), results=(part,))

    def _part(self, name: str, along: Sequence[tuple[int, int] | None], line: int) -> str:
        """A part of an operand, which has the last of these dimensions; None of one is all of it,
        and so is a dimension of one element, which is repeated.
        """
        shape = self._shape(name) or ()
        pairs = zip(shape, along[len(along) - len(shape) :], strict=True)
        box = tuple((0, n) if x is None or n == 1 else x for n, x in pairs)
        if box == tuple((0, n) for n in shape):
            return name
        if (name, box) not in self._written:
            made = self._named(name)
            self._write(sliced(made, name, box, line))
            self._written[name, box] = made
        return self._written[name, box]


def _looked_at(definition: Definition, tensors: Tensors) -> frozenset[str]:
    """The results, and what they are views of."""
    orders, found = Orders(definition, tensors), set[str]()
    for name in definition.outputs:
        found.add(name)
        while orders.is_view(name) and (node := definition.node(name)) is not None:
            name = node.refs[0]
            found.add(name)
    return frozenset(found)


def _are_apart(one: Box, other: Box) -> bool:
    """Whether two parts have no element in common."""
    return any(b <= c or d <= a for (a, b), (c, d) in zip(one, other, strict=True))
