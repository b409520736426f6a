"""A matmul written with its operands' factors behind it, or in the other operand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wsched.front.cut.factors import Factor, Product, along
from wsched.front.cut.graph import Graph
from wsched.front.cut.order import by_stride
from wsched.fusion import DataType
from wsched.importer import Node, Ref
from wsched.importer.definition import Value
from wsched.importer.products import UNROUNDED

__all__ = ["Scaled", "narrow", "written"]


@dataclass(frozen=True, slots=True)
class Scaled:
    """A matmul whose factors have moved.

    Args:
        nodes: what stands for it; the last ones make its result.
        product: name of the matmul itself.
        scaled: of the product with all factors and the bias, in fp32.
        said: what was moved, a sentence.
    """

    nodes: tuple[Node, ...]
    product: str
    scaled: str
    said: str


def narrow(graph: Graph, name: str, to: DataType, before: int) -> str | None:
    """A tensor of 16 bits that a value is, or is rounded to; None where there is none.

    Args:
        graph: of the definition.
        name: of the value.
        to: the type.
        before: position of what reads it.
    """
    if name not in graph.types:
        return None
    if graph.types[name].dtype is to:
        return name
    node = graph.nodes[graph.home[name]]
    if node.op == "cast" and graph.types[node.refs[0]].dtype is to:
        return node.refs[0]
    for other in (graph.nodes[i] for i in sorted(graph.live) if i < before):
        casts = other.op == "cast" and other.refs == (name,)
        if casts and graph.types[other.results[0]].dtype is to:
            return other.results[0]
    return None


def written(graph: Graph, matmul: int, products: Mapping[int, Product], shared: set[str]) -> Scaled:
    """A matmul with all factors of these operands moved.

    Args:
        graph: of the definition.
        matmul: position.
        products: operands by their side, 0 or 1, where they are not as they were.
        shared: names that were made for matmuls before; those made here are added.
    """
    return _Writer(graph, matmul, graph.nodes[matmul], products, shared).written()


@dataclass(slots=True)
class _Writer:
    """Writes the operations; see :func:`written`."""

    graph: Graph
    matmul: int
    node: Node
    products: Mapping[int, Product]
    shared: set[str]
    nodes: list[Node] = field(default_factory=list)

    def written(self) -> Scaled:
        (result,) = self.node.results
        sides = [self._operand(side) for side in (0, 1)]
        product = scaled = self._make(self.node.op, *map(Ref, sides), **UNROUNDED)
        for side, found in self.products.items():
            for factor in found.factors:
                if not factor.summed:
                    scaled = self._make(factor.op, Ref(scaled), self._of_result(side, factor))
        bias = self.node.argument("bias", 2)
        if isinstance(bias, Ref):
            scaled = self._make(
                "add", Ref(scaled), self._spread(bias, (self._rank - 1,), self._rank)
            )
        to = ("dtype", self.graph.types[result].dtype)
        if result not in self.graph.definition.outputs:
            self.nodes.append(Node("cast", (result,), (Ref(scaled),), (to,), self.node.line))
            return Scaled(tuple(self.nodes), product, scaled, self._said())
        # A matmul's result lies row by row; what is computed lies as inputs do.
        rounded = self._make("cast", Ref(scaled), **dict((to,)))
        rows = ("stride_order", by_stride(tuple(range(self._rank))))
        self.nodes.append(Node("stride_order", (result,), (Ref(rounded),), (rows,), self.node.line))
        return Scaled(tuple(self.nodes), product, scaled, self._said())

    @property
    def _rank(self) -> int:
        return self._rank_of(self.node.results[0])

    def _rank_of(self, name: str) -> int:
        return len(self.graph.types[name].dims or ())

    @property
    def _dtype(self) -> DataType:
        """Of both operands; the product may say that it is fp32."""
        found = self.graph.types[self.node.refs[0]].dtype
        assert found is not None
        return found

    def _make(self, op: str, *operands: Value, **named: Value) -> str:
        name = f"{self.node.results[0]}@{len(self.nodes)}"
        kwargs = tuple(named.items())
        self.nodes.append(Node(op, (name,), operands, kwargs, self.node.line))
        return name

    # --- operands -------------------------------------------------------------------------------

    def _operand(self, side: int) -> str:
        """The name of an operand without its own factors, with those along K of the other one."""
        name, factors = self.node.refs[side], self._along_k(1 - side)
        if side in self.products:
            found = self.products[side]
            assert found.rest is not None
            same = narrow(self.graph, found.rest, self._dtype, self.matmul)
            name = same or self._rest(found, cast=not factors)
        return self._multiplied(side, name, factors) if factors else name

    def _rest(self, found: Product, cast: bool) -> str:
        """What is left of an operand, made once for all matmuls that read it."""
        name = found.rest or ""
        half = f"{name}@{self._dtype}"
        if cast and half not in self.shared:
            self.shared.add(half)
            to = (("dtype", self._dtype),)
            self.nodes.append(Node("cast", (half,), (Ref(name),), to, self.node.line))
        return half if cast else name

    def _along_k(self, side: int) -> list[Factor]:
        return [f for f in self.products.get(side, Product(None)).factors if f.summed]

    def _multiplied(self, side: int, name: str, factors: Iterable[Factor]) -> str:
        """An operand times factors along K: what it is transposed from, as that lies in memory."""
        rank = self._rank_of(self.node.refs[side])
        at, turns = along(self.node.op, side, rank), list[Node]()
        swap = (*range(rank - 2), rank - 1, rank - 2)
        node = self.graph.nodes[self.graph.home[name]] if name in self.graph.types else None
        while node is not None and node.op == "permute" and node.get("dims") == swap:
            turns.append(node)
            name = node.refs[0]
            node = self.graph.nodes[self.graph.home[name]]
        if len(turns) % 2:
            at = 2 * rank - 3 - at
        for factor in factors:
            kept = tuple(at if p == self._k(1 - side) else None for p in factor.places)
            name = self._make(factor.op, Ref(name), self._aligned(factor.value, kept, rank))
        name = self._make("cast", Ref(name), dtype=self._dtype)
        for _ in turns:
            name = self._make("permute", Ref(name), dims=swap)
        return name

    def _k(self, side: int) -> int:
        """The place of K in an operand."""
        return along(self.node.op, side, self._rank_of(self.node.refs[side]))

    # --- factors of the result ------------------------------------------------------------------

    def _of_result(self, side: int, factor: Factor) -> Value:
        """A factor that is the same along K, as it is broadcast along the result.

        K itself, of size 1 if it is there, becomes the dimension that the other operand has.
        """
        rank = self._rank_of(self.node.refs[side])
        if self.node.op == "linear" and side:
            into = {0: self._rank - 1}
        else:
            into = {p: p + self._rank - rank for p in range(rank)}
        return self._aligned(factor.value, tuple(into.get(p) for p in factor.places), self._rank)

    def _aligned(self, value: Value, places: tuple[int | None, ...], rank: int) -> Value:
        """A tensor whose dimensions go to these places; those that go nowhere have size 1."""
        if not isinstance(value, Ref) or not places:
            return value
        gone = tuple(at for at, p in enumerate(places) if p is None)
        if gone:
            value = Ref(self._make("squeeze", value, dims=gone))
        left = tuple(p for p in places if p is not None)
        return self._spread(value, left, rank) if left else value

    def _spread(self, value: Ref, places: tuple[int, ...], rank: int) -> Value:
        if len(places) == rank:
            return value
        flags = tuple(p not in places for p in range(rank))
        return Ref(self._make("broadcast", value, is_broadcast_dim=flags))

    def _said(self) -> str:
        texts = []
        for side, found in self.products.items():
            name, other = self.node.refs[side], self.node.refs[1 - side]
            kept, summed = (
                ", ".join(str(f.value) for f in found.factors if f.summed is along_k)
                for along_k in (False, True)
            )
            texts.append(f"{kept} of {name} scales the product, in fp32")
            texts += [f"{summed} of it is in {other}"] if summed else []
        return ", ".join(texts)
