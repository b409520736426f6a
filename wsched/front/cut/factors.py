"""An operand of a matmul as a product: what factors it has that may stand elsewhere.

A factor that is the same along K is one of the product, too; one that differs along K alone may as
well stand in the other operand. So a norm in front of a linear need not be done first: its
statistics are a factor of the result's rows, its weight one of the linear's. Found by algebra from
the operations as they are, whatever their order: products and quotients, casts, broadcasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wsched.front.cut.graph import Graph
from wsched.front.cut.tensors import Dim, numbers_of
from wsched.fusion import DataType
from wsched.importer import Node, Ref
from wsched.importer.definition import Value

__all__ = ["FLOATS", "Factor", "Product", "along", "product_of", "why_no_product"]

FLOATS = (DataType.BFloat16, DataType.Half, DataType.Float)

_REDUCTIONS = ("max", "min", "sum", "var", "var_mean", "welford")


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of an operand.

    Args:
        op: ``mul``, or ``div`` by it.
        value: a number, or a tensor as it is before anybody broadcasts it.
        places: for each dimension of the tensor the operand's that it is.
        summed: whether it differs along K, and then along nothing else.
    """

    op: str
    value: Value
    places: tuple[int, ...] = ()
    summed: bool = False


@dataclass(frozen=True, slots=True)
class Product:
    """An operand without factors, and these.

    Args:
        rest: name of what is left, of the operand's shape; None if it is of factors alone.
        factors: in the order in which the definition has them.
    """

    rest: str | None
    factors: tuple[Factor, ...] = ()


def along(op: str, side: int, rank: int) -> int:
    """The place of K in an operand of ``linear`` or ``matmul``."""
    return rank - 2 if op == "matmul" and side else rank - 1


def product_of(graph: Graph, matmul: int, side: int) -> Product | None:
    """An operand of a matmul as a product; None where it has no factor, or nothing but factors.

    Args:
        graph: of the definition.
        matmul: position.
        side: 0 or 1.
    """
    node = graph.nodes[matmul]
    name = node.refs[side]
    dims = graph.types[name].dims
    if dims is None or len(dims) < 2 or any(d.extent is None or d.repeated for d in dims):
        return None
    found = _Splitter(graph, dims, along(node.op, side, len(dims))).split(name)
    return found if found.factors and found.rest is not None else None


@dataclass(frozen=True, slots=True)
class _Splitter:
    """Takes values of an operand's shape apart.

    Args:
        graph: of the definition.
        dims: of the operand.
        summed: place of K.
    """

    graph: Graph
    dims: tuple[Dim, ...]
    summed: int

    def split(self, value: Value) -> Product:
        """A number or a tensor as a product."""
        if not isinstance(value, Ref | str) or str(value) not in self.graph.types:
            return Product(None, (Factor("mul", value),))
        name = str(value)
        if (factor := self._vector(name)) is not None:
            return Product(None, (factor,))
        node = self.graph.nodes[self.graph.home[name]]
        whole = Product(name)
        if node.op == "set" or _is_cast(self.graph, node):
            found = self.split(node.refs[0])
        elif node.op in ("mul", "div", "truediv") and len(node.values) == 2:
            left, right = map(self.split, node.values)
            found = _times(left, right) if node.op == "mul" else _over(left, right)
        else:
            return whole
        return found if found.factors and self._is_whole(found) else whole

    def _is_whole(self, found: Product) -> bool:
        """Whether what is left has the operand's shape."""
        return found.rest is None or self.graph.types[found.rest].dims == self.dims

    def _vector(self, name: str) -> Factor | None:
        """A tensor as a factor, None if it differs along K and along others."""
        dims = self.graph.types[name].dims
        rank = len(self.dims)
        if dims is None or len(dims) > rank:
            return None
        base, places = _before_broadcasts(self.graph, name, tuple(range(rank - len(dims), rank)))
        dims = self.graph.types[base].dims
        if dims is None or any(d.extent is None or d.repeated for d in dims):
            return None
        differs = {p for p, d in zip(places, dims, strict=True) if not d.is_one}
        if self.summed in differs and differs != {self.summed}:
            return None
        return Factor("mul", Ref(base), places, self.summed in differs)


def _times(left: Product, right: Product) -> Product:
    """A product, where one side is of factors alone; else without any, so that it is left."""
    if left.rest is not None and right.rest is not None:
        return Product(None)
    return Product(left.rest or right.rest, left.factors + right.factors)


def _over(left: Product, right: Product) -> Product:
    """A quotient, where the divisor is of factors alone; else likewise."""
    if right.rest is not None:
        return Product(None)
    turned = tuple(replace(f, op="div" if f.op == "mul" else "mul") for f in right.factors)
    return Product(left.rest, left.factors + turned)


def _before_broadcasts(
    graph: Graph, name: str, places: tuple[int, ...]
) -> tuple[str, tuple[int, ...]]:
    """A tensor before it is broadcast, expanded or cast, and the places of its dimensions."""
    while True:
        node = graph.nodes[graph.home[name]]
        if node.op == "broadcast":
            flags = node.get("is_broadcast_dim")
            news = flags if isinstance(flags, tuple) else ()
            places = tuple(p for p, new in zip(places, news, strict=True) if not new)
        elif node.op == "broadcast_in_dim":
            places = tuple(places[at] for at in numbers_of(node.get("broadcast_dims")))
        elif node.op not in ("expand", "set") and not _is_cast(graph, node):
            return name, places
        name = node.refs[0]


def _is_cast(graph: Graph, node: Node) -> bool:
    """Whether it is a cast between types of floating point."""
    if node.op != "cast":
        return False
    return all(graph.types[n].dtype in FLOATS for n in (node.results[0], node.refs[0]))


def why_no_product(graph: Graph, matmul: int) -> Iterator[str]:
    """Why operands are normalised in front of a matmul: what no factor is; of other operands none.

    Args:
        graph: of the definition.
        matmul: position.
    """
    for name in dict.fromkeys(graph.nodes[matmul].refs[:2]):
        i = graph.home[name]
        before = graph.reached([i], frozenset(range(len(graph.nodes))) - set(graph.matmuls))
        if not any(graph.nodes[j].op in _REDUCTIONS for j in before):
            continue
        stop = _first_sum(graph, i)
        if stop is not None:
            line = f"fd.ops.{stop.op} (line {stop.line})"
            yield f"{name} is normalised first: {line} does not commute with the product"


def _first_sum(graph: Graph, i: int) -> Node | None:
    """The sum or difference that ends an operand, or the factors at its end."""
    node = graph.nodes[i]
    if node.op in ("add", "sub"):
        return node
    if node.op == "set" or _is_cast(graph, node):
        return _first_sum(graph, graph.home[node.refs[0]])
    if node.op in ("mul", "div", "truediv"):
        found = (_first_sum(graph, graph.home[n]) for n in node.refs if n in graph.types)
        return next((n for n in found if n is not None), None)
    return None
