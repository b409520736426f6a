"""Tensors that are put together, taken apart again where something multiplies or follows them.

    linear(x, cat([v, w], 0))                 =  cat([linear(x, v), linear(x, w)], -1)
    linear(cat([x, y], 0), w)                 =  cat([linear(x, w), linear(y, w)], 0)
    relu(cat([linear(x, v), linear(x, w)]))   =  cat([relu(linear(x, v)), relu(linear(x, w))])
    linear(cat([x, y], -1), cat([v, w], -1))  =  linear(x, v) + linear(y, w), in one kernel

So operands are read where they lie, and all that is left of a ``cat`` stands behind the products:
kernels store into one tensor (:mod:`wsched.front.cut.joined`), or, where only slices of it are
read that are its parts, nobody puts anything together. It is another form of the definition, which
is priced like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate

from lowering.ground.expr import ONE, ZERO, Const, Expr
from wsched.front.cut.along_k import PAIRS, of_pairs, summands_of
from wsched.front.cut.cats import plain_cat, same, size_of, through
from wsched.front.cut.looks import sliced
from wsched.front.cut.tensors import Tensors, numbers_of
from wsched.fusion import DataType
from wsched.importer import Definition, Node, Ref
from wsched.importer.definition import Value
from wsched.importer.ops import MATMULS, arity_of

__all__ = ["Apart", "apart"]

_HALVES = (DataType.BFloat16, DataType.Half)


@dataclass(frozen=True, slots=True)
class Cat:
    """A tensor as others behind each other.

    Args:
        dim: along which, from the first dimension on.
        parts: their names, in order.
        extents: of each along that dimension.
        made: whether a matmul, and what is pointwise behind it, makes one of them.
        of: the result of the ``cat`` that they were put together by.
    """

    dim: int
    parts: tuple[str, ...]
    extents: tuple[Expr, ...]
    made: bool
    of: str


@dataclass(frozen=True, slots=True)
class Apart:
    """A definition with its ``cat`` behind matmuls.

    Args:
        definition: with the inputs and outputs of the one that it stands for.
        joined: results of ``cat`` of which matmuls make a part.
        said: for each matmul of a part its operand, to be told.
        summed: products that are sums of two along K now, which have to be one kernel each: alone
            the summands would be rounded.
    """

    definition: Definition
    joined: frozenset[str]
    said: Mapping[str, str]
    summed: frozenset[str] = frozenset()


def apart(definition: Definition, tensors: Tensors) -> Apart | None:
    """The definition in this form; None where no matmul has to do with a ``cat``.

    Args:
        definition: whose operations are in order.
        tensors: of it.
    """
    if not any(n.op == "cat" for n in definition.nodes):
        return None
    whole = frozenset[str]()
    while True:
        writer = _Writer(definition, tensors, whole)
        for node in definition.nodes:
            writer.take(node)
        for name in definition.outputs:
            writer.read(name)
        if writer.sliced <= whole:
            break
        whole |= writer.sliced
    nodes, needed = tuple(writer.nodes), Definition(tuple(writer.nodes), definition.outputs)
    live = needed.behind(definition.outputs)
    kept = tuple(n for n in nodes if n.is_input or n.results[0] in live)
    said = {name: text for name, text in writer.said.items() if name in live}
    joined = frozenset(name for name in writer.joined if name in live)
    if not said and not joined:
        return None
    return Apart(replace(definition, nodes=kept), joined, said, frozenset(writer.summed & {*live}))


@dataclass(slots=True)
class _Writer:
    """Writes a definition anew.

    Args:
        definition: which it is of.
        tensors: of it.
        whole: results of ``cat`` of which more is read than slices that are parts.
        nodes: what is written.
        joined: see :class:`Apart`.
        said: see :class:`Apart`.
        sliced: of those whose slices became parts the ones that are read whole as well.
        summed: see :class:`Apart`.
    """

    definition: Definition
    tensors: Tensors
    whole: frozenset[str]
    nodes: list[Node] = field(default_factory=list)
    joined: set[str] = field(default_factory=set)
    said: dict[str, str] = field(default_factory=dict)
    sliced: set[str] = field(default_factory=set)
    summed: set[str] = field(default_factory=set)
    _cats: dict[str, Cat] = field(default_factory=dict)
    _made: set[str] = field(default_factory=set)
    _alias: dict[str, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _there: set[str] = field(default_factory=set)

    def take(self, node: Node) -> None:
        """The next operation."""
        cat, node = self._cat(node), node.reading(self._alias)
        if cat is not None:
            self._cats[node.results[0]] = cat
            return
        if any(name in self._cats for name in node.refs) and self._is_apart(node):
            return
        for name in node.refs:
            self.read(name)
        self._write(node)

    def read(self, name: str) -> None:
        """Have a tensor in memory whole."""
        cat = self._cats.get(name)
        if cat is None or name in self._there:
            return
        self._there.add(name)
        if name in self._taken:
            self.sliced.add(name)
        if cat.made:
            self.joined.add(name)
        node = self.definition.node(name)
        assert node is not None
        if node.op == "cat" and not cat.made:
            self.nodes.append(node.reading(self._alias))
            return
        tensors = tuple(map(Ref, cat.parts))
        self.nodes.append(Node("cat", (name,), (tensors,), (("dim", cat.dim),), node.line))

    def _write(self, node: Node) -> None:
        """Enter an operation as it is."""
        follows = node.op == "cast" or arity_of(node.op) is not None
        if node.op in MATMULS or (follows and not self._made.isdisjoint(node.refs)):
            self._made.update(node.results)
        self.nodes.append(node)

    def _cat(self, node: Node) -> Cat | None:
        found = plain_cat(self.definition, node, self.tensors)
        if found is None:
            return None
        dim, names = found
        known = [e for n in names if (e := self.tensors[n].extents) is not None]
        if len(known) < len(names):
            return None
        names = [self._alias.get(n, n) for n in names]
        extents = tuple(e[dim] for e in known)
        for name in names:
            self.read(name)
        made = not self._made.isdisjoint(names)
        return Cat(dim, tuple(names), extents, made, node.results[0])

    # --- what a cat is taken apart by -------------------------------------------------------------

    def _is_apart(self, node: Node) -> bool:
        """Whether an operation that reads a ``cat`` is one of the parts now."""
        if node.op in MATMULS:
            found = self._product(node)
            if found is None and self._is_summed(node):
                return True
        elif node.op == "slice":
            return self._is_part(node)
        elif node.op == "permute":
            found = self._permuted(node)
        elif node.op == "cast" or arity_of(node.op) is not None:
            found = self._pointwise(node)
        else:
            found = None
        if found is None:
            return False
        self._cats[node.results[0]] = found
        return True

    def _is_part(self, node: Node) -> bool:
        """Whether a slice is a part, which is read in its place."""
        name, source = node.results[0], node.refs[0]
        cat, seen = self._cats[source], self.tensors.types.get(name)
        starts, steps = node.argument("start_indices", 1), node.argument("strides", 3)
        if source in self.whole or name in self.definition.outputs or not isinstance(starts, tuple):
            return False
        if seen is None or seen.spread is None or not self._are_ones(steps):
            return False
        whole = self.tensors[source].spread or ()
        if any(not same(a, b) for at, (a, b) in enumerate(zip(whole, seen.spread, strict=True))
               if at != cat.dim):  # fmt: skip
            return False
        past: Expr = ZERO
        for part, extent in zip(cat.parts, cat.extents, strict=True):
            here = same(size_of(self.tensors, starts[cat.dim]), past)
            if here and same(extent, seen.spread[cat.dim]):
                self._alias[name] = part
                self._taken.add(source)
                return True
            past = past + extent
        return False

    def _are_ones(self, steps: Value) -> bool:
        """Whether a slice leaves no gaps."""
        listed = steps if isinstance(steps, tuple) else ()
        told = steps is None or isinstance(steps, tuple)
        return told and all(same(size_of(self.tensors, step), ONE) for step in listed)

    def _permuted(self, node: Node) -> Cat | None:
        """A permutation of each; not of what is made, which is looked at as a whole."""
        cat, order = self._cats[node.refs[0]], numbers_of(node.argument("dims", 1))
        if not order or cat.made:
            return None
        places = [at % len(order) for at in order]
        made = tuple(
            self._of_part(node, at, {node.refs[0]: part}) for at, part in enumerate(cat.parts)
        )
        return replace(cat, dim=places.index(cat.dim), parts=made)

    def _pointwise(self, node: Node) -> Cat | None:
        """What is computed of parts; of tensors that have one element along the dimension whole."""
        names = dict.fromkeys(n for n in node.refs if n in self.tensors)
        cats = [self._cats[n] for n in names if n in self._cats]
        first, dims = cats[0], self.tensors[node.results[0]].dims
        if dims is None or (node.op != "cast" and not any(c.made for c in cats)):
            return None
        if not {*self._alias.values()}.isdisjoint(node.refs):  # parts, whose sizes are not here
            return None
        back = len(dims) - first.dim
        kept = dict[str, list[str]]()
        for name in names:
            mine, cat = self.tensors[name].dims, self._cats.get(name)
            if mine is None:
                return None
            if cat is not None:
                if len(mine) - cat.dim != back or cat.extents != first.extents:
                    return None
                kept[name] = list(cat.parts)
            elif len(mine) >= back and not mine[-back].is_one:
                sliced = self._slices(name, len(mine) - back, first.extents, node.line)
                if sliced is None:
                    return None
                kept[name] = sliced
        made = tuple(
            self._of_part(node, at, {name: parts[at] for name, parts in kept.items()})
            for at in range(len(first.parts))
        )
        return Cat(first.dim, made, first.extents, any(c.made for c in cats), first.of)

    def _product(self, node: Node) -> Cat | None:
        """The products of an operand's parts, along rows or columns."""
        factors = [v.name if isinstance(v, Ref) else "" for v in node.factors]
        if factors[0] == factors[1]:  # a part of one would be one of the other
            return None
        cats = [self._cats.get(name) for name in factors]
        dims = [self.tensors[n].dims or () for n in factors if n in self.tensors]
        result = self.tensors[node.results[0]].dims
        if result is None or len(dims) < 2 or min(map(len, dims)) < 2:
            return None
        (x, w), (a, b) = dims[:2], cats
        if b is not None and b.dim == (len(w) - 1 if node.op == "matmul" else 0):
            return self._products(node, b, 1, len(result) - 1)
        back = 0 if a is None else len(x) - a.dim
        if a is not None and (back == 2 or (back > 2 and len(w) == 2)):
            return self._products(node, a, 0, len(result) - back)
        return None

    def _products(self, node: Node, cat: Cat, side: int, dim: int) -> Cat | None:
        """The products of the parts of one operand, which are parts along a dimension."""
        name, bias = node.factors[side], node.argument("bias", 2)
        biases = list[str]()
        if isinstance(bias, Ref) and side == 1:
            found = self._slices(bias.name, 0, cat.extents, node.line)
            if found is None:
                return None
            biases = found
        made = list[str]()
        for at, part in enumerate(cat.parts):
            names = {str(name): part} | ({str(bias): biases[at]} if biases else {})
            made.append(self._of_part(node, at, names))
            self._made.add(made[-1])
            self.said[made[-1]] = f"{part} of fd.ops.cat {cat.of} is read where it lies"
        return Cat(dim, tuple(made), cat.extents, True, cat.of)

    def _is_summed(self, node: Node) -> bool:
        """Whether a product along K of two tensors is the sum of two products now."""
        first, second = (v.name if isinstance(v, Ref) else "" for v in node.factors)
        cats, pair = [self._cats.get(first), self._cats.get(second)], (first, second)
        ranks = [len(self.tensors[n].dims or ()) if n in self.tensors else 0 for n in pair]
        along = [ranks[0] - 1, ranks[1] - (1 if node.op == "linear" else 2)]
        kind = self.tensors[node.results[0]].dtype
        found = next((c for c, k in zip(cats, along, strict=True) if c and c.dim == k), None)
        if found is None or len(found.parts) != PAIRS or min(ranks) < 2 or kind not in _HALVES:
            return False
        parts = [
            self._slices(name, k, found.extents, node.line)
            for name, k in zip(pair, along, strict=True)
        ]
        bias = node.argument("bias", 2)
        if parts[0] is None or parts[1] is None:
            return False
        if isinstance(bias, Ref):
            self.read(bias.name)
        for made in of_pairs(node, parts[0], parts[1], kind):
            self._write(made)
        for at, name in enumerate(summands_of(node.results[0])):
            self.said[name] = f"{found.parts[at]} of fd.ops.cat {found.of} is read where it lies"
        self.summed.add(node.results[0])
        return True

    # --- parts ------------------------------------------------------------------------------------

    def _slices(
        self, name: str, dim: int, extents: tuple[Expr, ...], line: int
    ) -> list[str] | None:
        """The parts of a tensor, of these extents along a dimension; None where the text would have
        to say sizes that are not told.
        """
        cat = self._cats.get(name)
        if cat is not None and (cat.dim, cat.extents) == (dim, extents):
            return list(cat.parts)
        spread = self.tensors[name].spread if name in self.tensors else None
        lengths = [e.value for e in extents if isinstance(e, Const)]
        sizes = [e.value for e in spread or () if isinstance(e, Const)]
        if spread is None or len(lengths) < len(extents) or len(sizes) < len(spread):
            return None
        return [
            self._slice(name, dim, past, past + size, line)
            for past, size in zip(accumulate((0, *lengths)), lengths, strict=False)
        ]

    def _slice(self, name: str, dim: int, start: int, end: int, line: int) -> str:
        """A part of a tensor of known sizes; of what is repeated or cast a part of what that is of.

        Args:
            name: of the tensor.
            dim: along which, from the first dimension on.
            start: the part's first place.
            end: the place behind its last one.
            line: of the text.
        """
        made, node = f"{name}@{dim}from{start}to{end}", self.definition.node(name)
        if made in self._there:
            return made
        self._there.add(made)
        assert node is not None
        inner, kwargs = through(self.tensors, node, dim, end - start)
        if inner is not None:
            source = Ref(self._slice(node.refs[0], inner, start, end, line))
            cut = replace(node, results=(made,), operands=(source,), kwargs=kwargs)
        else:
            self.read(name)
            extents = self.tensors[name].spread or ()
            box = [(0, e.value) for e in extents if isinstance(e, Const)]
            box[dim] = start, end
            cut = sliced(made, name, box, line)
        self._write(cut)
        return made

    def _of_part(self, node: Node, at: int, names: Mapping[str, str]) -> str:
        """Write an operation for a part; its name."""
        made = f"{node.results[0]}@cat{at}"
        for name in node.refs:
            if name not in names:
                self.read(name)
        self._write(replace(node.reading(names), results=(made,)))
        return made
