"""Operands of matmuls that are one matrix again and again, or one row or column of it.

``expand`` and ``broadcast_in_dim`` give an operand dimensions without memory of their own. Along
batches that the other operand has a product needs none of that: ``matmul`` repeats a batch of 1 by
itself, and to a kernel it is a matrix for all of a batch. What else is repeated is put into memory
in front of the product. So is an operand that ``matmul`` itself repeats where a kernel has no
batches for it: it has two runs of dimensions, and a third takes one that both operands have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from lowering.ground.expr import ONE, Const
from wsched.front.cut.tensors import Dim, Tensors, numbers_of
from wsched.importer import Definition, Node, Ref
from wsched.importer.definition import Value
from wsched.importer.ops import MATMULS, arity_of

__all__ = ["without_repeats"]

Dims = tuple[Dim, ...]

Places = frozenset[int]
"""Dimensions of a tensor, counted from the first one."""


def without_repeats(definition: Definition, tensors: Tensors) -> Definition:
    """The definition with matmuls of operands that are not repeated; itself where none is.

    Args:
        definition: whose operations are in order.
        tensors: of it.
    """
    writer, changed = _Writer(definition, tensors), False
    for node in definition.nodes:
        names = writer.operands(node) if node.op in MATMULS else {}
        changed |= bool(names)
        writer.nodes.append(node.reading(names) if names else node)
    return replace(definition, nodes=tuple(writer.nodes)) if changed else definition


@dataclass(slots=True)
class _Writer:
    """Writes a definition anew, and in front of a matmul its operands, each once.

    Args:
        definition: which they are of.
        tensors: of it.
        nodes: what is written.
    """

    definition: Definition
    tensors: Tensors
    nodes: list[Node] = field(default_factory=list)
    _once_of: dict[tuple[str, Places], str | None] = field(default_factory=dict)
    _stored_of: dict[str, str] = field(default_factory=dict)

    def operands(self, matmul: Node) -> dict[str, str]:
        """What a matmul reads in place of its repeated operands, by their names."""
        pair = [v.name if isinstance(v, Ref) else "" for v in matmul.factors]
        dims = [self._dims(name) for name in pair]
        found: dict[str, str] = {}
        for at, (name, mine, other) in enumerate(zip(pair, dims, dims[::-1], strict=True)):
            if not any(d.repeated for d in mine) or self._is_given(name):
                continue
            batches = _batches(mine, other) if matmul.op == "matmul" else Places()
            once = self._once(name, batches)
            if once is not None:
                mine = tuple(Dim(ONE) if i in batches else d for i, d in enumerate(mine))
            repeated = any(d.repeated for d in mine)
            once = name if once is None else once
            found[name] = self._stored(once, mine, matmul.line) if repeated else once
            dims[at] = mine
        return found | self._in_two_runs(matmul, pair, dims, found)

    def _in_two_runs(
        self, matmul: Node, pair: list[str], dims: list[Dims], found: Mapping[str, str]
    ) -> dict[str, str]:
        """The operands that are put into memory with batches of the other one, so that these are
        two runs of dimensions; the second one before the first.

        Args:
            matmul: of them.
            pair: their names.
            dims: theirs, as they are read.
            found: what is read in their place.
        """
        made: dict[str, str] = {}
        known = all(d.extent is not None for x in dims for d in x)
        batches = matmul.op == "matmul" and min(map(len, dims)) > 2
        if not known or not batches or pair[0] == pair[1]:
            return made
        for at in (1, 0):
            mine, other = dims[at], dims[1 - at]
            name, places = pair[at], _lacking(mine, other)
            if places and _runs(mine, other) > 2:
                whole = tuple(
                    Dim(other[i - len(mine)].extent) if i in places else d
                    for i, d in enumerate(mine)
                )
                read = found.get(name, name)
                made[name] = self._whole(read, pair[1 - at], places, whole, matmul.line)
                dims[at] = whole
        return made

    def _whole(self, name: str, other: str, places: Places, dims: Dims, line: int) -> str:
        """A tensor in memory with the sizes of another one in place of 1 for these dimensions."""
        over = f"{name}@over_{other}"
        if over not in self._stored_of:
            shift, shape = len(self._dims(other)) - len(dims), list[Value]()
            for at, dim in enumerate(dims):
                size: Value = -1
                if at in places and isinstance(dim.extent, Const):
                    size = dim.extent.value
                elif at in places:
                    of = f"{over}@of_{at}"
                    size = Ref(self._write(Node("size", (of,), (Ref(other), at + shift), (), line)))
                shape.append(size)
            kwargs = (("shape", tuple(shape)),)
            self._write(Node("expand", (over,), (Ref(name),), kwargs, line))
        return self._stored(over, dims, line)

    def _dims(self, name: str) -> Dims:
        return (self.tensors[name].dims if name in self.tensors else None) or ()

    def _is_given(self, name: str) -> bool:
        """Whether it is an input, moved or not: the caller has repeated it."""
        node = self.definition.node(name)
        while node is not None and node.op == "permute":
            node = self.definition.node(node.refs[0])
        return node is None or node.is_input

    # --- once -----------------------------------------------------------------------------------

    def _once(self, name: str, places: Places) -> str | None:
        """A tensor with 1 for its repeated dimensions at these places; None where nobody knows what
        that is made of.
        """
        if not places:
            return name
        key = name, places
        if key not in self._once_of:
            node = self.definition.node(name)
            self._once_of[key] = None if node is None else self._made_once(node, places)
        return self._once_of[key]

    def _made_once(self, node: Node, places: Places) -> str | None:
        rank = len(self._dims(node.results[0]))
        match node.op:
            case "expand":
                return self._spread(node, places, tuple(range(rank)))
            case "broadcast_in_dim":
                return self._spread(node, places, numbers_of(node.get("broadcast_dims")))
            case "permute":
                order = numbers_of(node.get("dims"))
                before = Places(order[at] for at in places)
                return self._reading(node, places, {node.refs[0]: before})
            case op if op in ("cast", "set") or arity_of(op) is not None:
                last = {at - rank for at in places}
                tensors = (n for n in node.refs if n in self.tensors)
                return self._reading(node, places, {n: self._wide(n, last) for n in tensors})
        return None

    def _wide(self, name: str, last: set[int]) -> Places:
        """Of dimensions, counted from behind, those of which a tensor has more than one."""
        dims = self._dims(name)
        return Places(len(dims) + at for at in last if len(dims) >= -at and not dims[at].is_one)

    def _reading(self, node: Node, places: Places, before: Mapping[str, Places]) -> str | None:
        """An operation with 1 for dimensions of its result, which are these of what it reads."""
        found = {name: self._once(name, at) for name, at in before.items()}
        names = {name: once for name, once in found.items() if once is not None}
        if len(names) < len(found):
            return None
        named = _named_once(node.results[0], places)
        return self._write(replace(node.reading(names), results=named))

    def _spread(self, node: Node, places: Places, into: tuple[int, ...]) -> str | None:
        """What repeats a tensor, whose dimensions go to these places, with 1 for some."""
        (name,), before, shape = node.results, node.refs[0], node.get("shape")
        old, new = self._dims(before), self._dims(name)
        if not isinstance(shape, tuple) or len(into) != len(old):
            return None
        of = {place: old[at] for at, place in enumerate(into)}
        already = {at for at, dim in of.items() if not dim.is_one}
        source = self._once(before, Places(into.index(at) for at in places & already))
        if source is None:
            return None
        if any(d.repeated for at, d in enumerate(new) if at not in places | already):
            some = tuple(1 if at in places else size for at, size in enumerate(shape))
            kwargs = tuple((k, some if k == "shape" else v) for k, v in node.kwargs)
            made = replace(node, operands=(Ref(source),), kwargs=kwargs)
        elif len(old) < len(new):
            flags = tuple(at not in of for at in range(len(new)))
            made = replace(
                node, op="broadcast", operands=(Ref(source),), kwargs=(("is_broadcast_dim", flags),)
            )
        else:
            return source
        return self._write(replace(made, results=_named_once(name, places)))

    # --- stored ---------------------------------------------------------------------------------

    def _stored(self, name: str, dims: Dims, line: int) -> str:
        """A tensor in memory whole, by way of one dimension, in which nothing is repeated."""
        if name not in self._stored_of:
            shape = tuple(self._size(name, at, d, line) for at, d in enumerate(dims))
            flat = self._write(_reshaped(f"{name}@flat", name, (-1,), line))
            self._stored_of[name] = self._write(_reshaped(f"{name}@stored", flat, shape, line))
        return self._stored_of[name]

    def _size(self, name: str, at: int, dim: Dim, line: int) -> Value:
        if isinstance(dim.extent, Const):
            return dim.extent.value
        return Ref(self._write(Node("size", (f"{name}@{at}",), (Ref(name), at), (), line)))

    def _write(self, node: Node) -> str:
        """Enter an operation; the name of its result."""
        self.nodes.append(node)
        return node.results[0]


def _batches(mine: Dims, other: Dims) -> Places:
    """The batches of an operand that are repeated and that the other one has."""
    last = range(3, min(len(mine), len(other)) + 1)
    return Places(
        len(mine) - at
        for at in last
        if mine[-at].repeated and not other[-at].repeated and not other[-at].is_one
    )


def _runs(first: Dims, second: Dims) -> int:
    """Runs of batches that the same operands have: of ``[2, 3, 4]`` and ``[2, 1, 4]`` three."""
    count = max(len(first), len(second)) - 2
    rows = [(*(True for _ in range(count + 2 - len(x))), *(d.is_one for d in x[:-2]))
            for x in (first, second)]  # fmt: skip
    has = [pair for pair in zip(*rows, strict=True) if pair != (True, True)]
    return sum(1 for _ in groupby(has))


def _lacking(mine: Dims, other: Dims) -> Places:
    """The batches of size 1 of an operand of which the other one has more."""
    last = range(3, min(len(mine), len(other)) + 1)
    return Places(len(mine) - at for at in last if mine[-at].is_one and not other[-at].is_one)


def _named_once(name: str, places: Places) -> tuple[str]:
    return (f"{name}@once{'_'.join(map(str, sorted(places)))}",)


def _reshaped(name: str, source: str, shape: tuple[Value, ...], line: int) -> Node:
    return Node("reshape", (name,), (Ref(source),), (("new_shape", shape),), line)
