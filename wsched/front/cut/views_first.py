"""Views moved in front of what is pointwise, where they are strides of what is read.

    reshape(cast(x) * 2)  =  cast(reshape(x)) * 2

A sweep reads tensors as they lie, in any order of their dimensions; what it has no word for is one
dimension in place of two, a part of one, or one place along it. Such views are pushed through
pointwise operations until they look at inputs.

    reshape(cat([-x[..., n:], x[..., :n]]) * sin, [..., 2, n])
        = halves(-x[..., n:], x[..., :n]) * reshape(sin, [..., 2, n])

Nor has it a word for one tensor behind another. Where the last dimension is two halves, as of
rotary embeddings, results are made with it taken as two dimensions: what was behind the other
there is another place along a dimension of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const, Expr
from lowering.ground.resolve import resolve
from wsched.front.cut.looks import move_of, pruned
from wsched.front.cut.tensors import Dim, TensorType, dense_input
from wsched.front.look import Look, Move
from wsched.importer import Definition, Node, Ref
from wsched.importer.constants import Numbers
from wsched.importer.definition import Value
from wsched.importer.ops import HALVES, arity_of

__all__ = ["halved", "in_halves", "views_first"]

_MOVED = ("reshape", "select", "slice")
"""Views that a sweep does not read by an order of dimensions alone."""

_LEAST = 8
"""Elements of a half at least: what threads access at once."""

Key = tuple[str, tuple[Move, ...]]
"""A tensor, and how it is looked at."""


Extents = tuple[Expr, ...]


def halved(extents: Extents) -> Extents:
    """Extents with the last dimension as two halves.

    Raises:
        UnsupportedError: it has none of whole pieces of a row.
    """
    if not extents:
        raise UnsupportedError("halves of a single number", "rows")
    *others, last = extents
    if not isinstance(last, Const) or last.value % (2 * _LEAST) or not last.value:
        raise UnsupportedError(f"halves of {last} elements", f"multiples of {2 * _LEAST}")
    return (*others, Const(2), Const(last.value // 2))


def in_halves(
    definition: Definition, types: Mapping[str, TensorType], shapes: Mapping[str, Extents]
) -> tuple[Definition, dict[str, TensorType]]:
    """The same results with the last dimension as two halves, and the types of all tensors.

    Args:
        definition: without a matmul.
        types: of its tensors.
        shapes: of its results.

    Raises:
        UnsupportedError: a result has no halves of whole pieces of a row.
    """
    made = {name: f"{name}@whole" for name in definition.outputs}
    found = {made.get(name, name): kind for name, kind in types.items()}
    nodes = [_renamed(node, made) for node in definition.nodes]
    for name, extents in shapes.items():
        two = tuple(map(Dim, halved(extents)))
        found[name] = TensorType(types[name].dtype, two)
        found[made[name]] = TensorType(types[name].dtype, tuple(map(Dim, extents)))
        nodes.append(Node("reshape", (name,), (Ref(made[name]),), (), nodes[-1].line))
    return Definition(tuple(nodes), definition.outputs), found


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    """An operation of others."""
    return replace(node.reading(names), results=tuple(names.get(r, r) for r in node.results))


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
        if node.op == "set":
            return (yield node.refs[0], moves)
        if len(moves) == 1 and self._is_halving(name, moves[0]):
            if node.op == "cat":
                return self._stacked(node, seen, moves[0])
            if (around := self._around(node, moves[0])) is not None:
                source, kwargs = around
                inner = Ref((yield source, (self._halving(source),)))
                self.nodes.append(Node(node.op, (seen,), (inner,), kwargs, node.line))
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
                value = Ref((yield value.name, self._of_operand(name, value.name, moves)))
            operands.append(value)
        self.nodes.append(replace(node, results=(seen,), operands=tuple(operands)))
        return seen

    def _is_halving(self, name: str, move: Move) -> bool:
        """Whether a tensor is looked at with its last dimension as two halves."""
        spread = self.types[name].spread
        pair = spread and (*spread[:-1], *move.extents[-2:])
        return move.op == "reshape" and move.extents == pair and move.extents[-2] == Const(2)

    def _around(self, node: Node, move: Move) -> tuple[str, tuple[tuple[str, Value], ...]] | None:
        """What an operation is of that leaves the last dimension where it is, and its arguments
        where that is taken as two; None of any other.
        """
        if not node.refs:
            return None
        source, kwargs = node.refs[0], dict(node.kwargs)
        last, flags, dims = len(move.extents) - 2, node.get("is_broadcast_dim"), node.get("dims")
        match node.op:
            case "broadcast" if isinstance(flags, tuple) and not flags[-1]:
                kwargs["is_broadcast_dim"] = (*flags, False)
            case "permute" if isinstance(dims, tuple) and dims[-1] in (last, -1):
                kwargs["dims"] = (*dims[:-1], last, last + 1)
            case "expand" if self._last(source) == self._last(node.results[0]):
                kwargs["shape"] = tuple(
                    e.value if isinstance(e, Const) else -1 for e in move.extents
                )
            case _:
                return None
        return source, tuple(kwargs.items())

    def _halving(self, name: str) -> Move:
        spread = self.types[name].spread
        if spread is None:
            raise UnsupportedError(f"halves of {name}", "of a tensor of known sizes")
        return Move("reshape", (), halved(spread))

    def _last(self, name: str) -> Expr | None:
        spread = self.types[name].spread
        return spread[-1] if spread else None

    def _stacked(self, node: Node, seen: str, move: Move) -> str:
        """Two halves of rows along a dimension of their own.

        Raises:
            UnsupportedError: others are concatenated, or along another dimension.
        """
        listed, last = node.argument("tensors", 0), len(move.extents) - 2
        tensors = listed if isinstance(listed, tuple) and len(listed) == 2 else ()
        found = [self._unpadded(x, at) for at, x in enumerate(tensors)]
        half = (*move.extents[:-2], move.extents[-1])
        if node.get("dim") not in (last, -1) or [self.types[x].spread for x in found] != 2 * [half]:
            raise UnsupportedError("fd.ops.cat of other tensors than halves of rows", "halves")
        dim = (("dim", last),)
        self.nodes.append(Node(HALVES, (seen,), tuple(map(Ref, found)), dim, node.line))
        return seen

    def _unpadded(self, value: Value, at: int) -> str:
        """One of two tensors that are put behind each other, as it was before zeros were put around
        it, as nvFuser writes a ``cat``; itself if none are.
        """
        name = str(value)
        node = self.definition.node(name)
        if node is None or node.op != "pad":
            return name
        widths = node.get("pad_widths")
        zero = Numbers(self.definition).of(node.argument("value", 2) or 0.0) == 0.0
        if not isinstance(widths, tuple) or not zero or widths[at] != 0 or set(widths[2:]) - {0}:
            raise UnsupportedError("fd.ops.pad in front of fd.ops.cat", "halves of rows")
        return node.refs[0]

    def _of_operand(self, name: str, operand: str, moves: tuple[Move, ...]) -> tuple[Move, ...]:
        """How an operand is looked at where what is computed of it is; halves are those of its own
        last dimension, whatever is repeated along others.

        Raises:
            UnsupportedError: it is repeated along a dimension that is looked at otherwise.
        """
        mine, its = self.types[name].spread, self.types[operand].spread
        if mine is not None and its is not None:
            if mine == its:
                return moves
            if its[-1:] == mine[-1:] and len(moves) == 1 and self._is_halving(name, moves[0]):
                return (self._halving(operand),)
        raise UnsupportedError(
            f"a view of {name}, which is broadcast from {operand}", "operands of one shape"
        )
