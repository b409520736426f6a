"""Views moved in front of what is pointwise, where they are strides of what is read.

    reshape(cast(x) * 2)  =  cast(reshape(x)) * 2

A sweep reads tensors as they lie, in any order of their dimensions; what it has no word for is one
dimension in place of two, a part of one, or one place along it. Such views are pushed through
pointwise operations until they look at inputs.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace

from lowering.ground.errors import UnsupportedError
from lowering.ground.resolve import resolve
from wsched.front.cut.looks import move_of, pruned
from wsched.front.cut.tensors import TensorType, dense_input
from wsched.front.look import Look, Move
from wsched.importer import Definition, Node, Ref
from wsched.importer.definition import Value
from wsched.importer.ops import arity_of

__all__ = ["views_first"]

_MOVED = ("reshape", "select", "slice")
"""Views that a sweep does not read by an order of dimensions alone."""

Key = tuple[str, tuple[Move, ...]]
"""A tensor, and how it is looked at."""


def views_first(
    definition: Definition, types: Mapping[str, TensorType]
) -> tuple[Definition, tuple[Look, ...]]:
    """The same results of inputs that are views, and these.

    Args:
        definition: without a matmul.
        types: of its tensors.

    Raises:
        UnsupportedError: a view of what is no input, and not pointwise either.
    """
    if not any(n.op in _MOVED for n in definition.nodes):
        return definition, ()
    made = _Viewed(definition, types)
    for node in definition.nodes:
        made.take(node)
    whole = pruned(Definition(tuple(made.nodes), definition.outputs))
    left = {n.results[0] for n in whole.inputs}
    return whole, tuple(look for look in made.looks if look.name in left)


@dataclass
class _Viewed:
    """A definition with its views in front as it grows."""

    definition: Definition
    types: Mapping[str, TensorType]
    nodes: list[Node] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    _found: dict[Key, str] = field(default_factory=dict)

    def take(self, node: Node) -> None:
        """The next operation."""
        if node.op not in _MOVED:
            self.nodes.append(node)
            return
        name = resolve((node.results[0], ()), self._make, self._found)
        self.nodes.append(Node("set", node.results, (Ref(name),), (), node.line))

    def _make(self, key: Key) -> Generator[Key, str, str]:
        """A tensor as it is looked at: an input, or what is made of such."""
        name, moves = key
        node = self.definition.node(name)
        assert node is not None
        seen = f"{name}@{len(self._found) + len(self.nodes)}"
        if node.op == "define_tensor":
            extents, dtype = moves[-1].extents, node.get("dtype")
            self.nodes.append(dense_input(seen, extents, dtype, node.line))
            self.looks.append(Look(seen, name, moves))
            return seen
        move = move_of(node, self.types)
        if move is not None:
            return (yield node.refs[0], (move, *moves))
        if node.op != "cast" and arity_of(node.op) is None:
            raise UnsupportedError(
                f"a view of the result of fd.ops.{node.op}", "of what is pointwise"
            )
        operands = list[Value]()
        for value in node.operands:
            if isinstance(value, Ref) and value.name in self.types:
                self._check_alike(name, value.name)
                value = Ref((yield value.name, moves))
            operands.append(value)
        self.nodes.append(replace(node, results=(seen,), operands=tuple(operands)))
        return seen

    def _check_alike(self, name: str, operand: str) -> None:
        """Refuse a view of what is broadcast from an operand."""
        pair = self.types[name].extents, self.types[operand].extents
        if None in pair or pair[0] != pair[1]:
            raise UnsupportedError(
                f"a view of {name}, which is broadcast from {operand}", "operands of one shape"
            )
