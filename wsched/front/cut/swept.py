"""Rests that are sweeps: kernels of wsched's for what is pointwise, so that no call is nvFuser's.

A rest has views in front (heads out of a linear's rows, halves of a fused projection), pointwise
operations, and views behind (heads back to rows). The views in front are strides of what a sweep
reads; a reshape at the end is its result looked at otherwise, because it is dense; an order in
memory is how it writes. What has results of several shapes is a sweep for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE, Const, Expr
from wsched.front.cut.graph import Graph
from wsched.front.cut.infer import infer
from wsched.front.cut.looks import pruned
from wsched.front.cut.order import Order, Orders, declared_order
from wsched.front.cut.part import plain_name, views_of
from wsched.front.cut.segments import Cut, Segment
from wsched.front.cut.tensors import TensorType
from wsched.front.cut.views_first import halved, in_halves, views_first
from wsched.importer import Definition, Node, Ref
from wsched.importer.sweep import import_sweep

__all__ = ["with_sweeps"]

Shape = tuple[Expr, ...]


def with_sweeps(
    graph: Graph,
    cut: Cut,
    known: dict[Segment, tuple[Segment, ...]],
    runs: Callable[[Segment], bool],
) -> Cut:
    """The same cut with each rest, or what of it can be, as sweeps.

    Args:
        graph: of the definition that is cut.
        cut: of it.
        known: what rests of other cuts of it have become; those of this one are added.
        runs: whether a sweep can be run in the sizes at hand.
    """
    found = list[Segment]()
    for segment in cut.segments:
        if segment.own or segment.kept:
            found.append(segment)
            continue
        if segment not in known:
            known[segment] = tuple(_apart(graph, segment, runs))
        found += known[segment]
    return replace(cut, segments=tuple(found))


def _apart(graph: Graph, segment: Segment, runs: Callable[[Segment], bool]) -> Iterator[Segment]:
    """A rest as sweeps, results that are views, and what is for others."""
    rest, orders = segment.definition, Orders(segment.definition, infer(segment.definition))
    left, groups = list[str](), dict[object, list[str]]()
    for name in rest.outputs:
        looks = list(_looked_at(rest, orders, name))
        if looks and _node(rest, looks[-1]).op.startswith("define_"):
            groups.setdefault("views", []).append(name)
        elif any(n in rest.outputs for n in looks):
            left.append(name)  # shares another result's memory
        else:
            groups.setdefault(_shape_of(graph, rest, name), []).append(name)
    for kind, names in groups.items():
        some = pruned(Definition(rest.nodes, tuple(names)))
        try:
            made = _views(graph, some) if kind == "views" else _sweep(graph, some, orders)
        except UnsupportedError:
            left += names
            continue
        if runs(made):
            yield made
        else:
            left += names
    if left:
        outputs = tuple(n for n in rest.outputs if n in left)
        yield (
            segment
            if outputs == rest.outputs
            else Segment(pruned(Definition(rest.nodes, outputs)), matmul=False)
        )


def _looked_at(rest: Definition, orders: Orders, name: str) -> Iterator[str]:
    """What a tensor is a view of, and what that is a view of, to the end; nothing if it is none."""
    while orders.is_view(name) and declared_order(_node(rest, name)) is None:
        name = _node(rest, name).refs[0]
        yield name


def _views(graph: Graph, rest: Definition) -> Segment:
    views = views_of(graph, rest)
    if not views:
        raise UnsupportedError("a result that shares an input's memory", "views of what is made")
    return Segment(rest, matmul=False, views=views)


def _sweep(graph: Graph, rest: Definition, orders: Orders) -> Segment:
    """A rest whose results have one shape as a sweep.

    Raises:
        UnsupportedError: it is none.
    """
    nodes, seen, lies = list(rest.nodes), list[tuple[str, Shape]](), list[Order]()
    for name in rest.outputs:
        made = _made(graph, rest, name)
        order = _order(rest, orders, name)
        if made != name:
            shape, whole = _extents(graph, made), _extents(graph, name)
            if shape != whole:
                if order != tuple(range(len(whole))):
                    raise UnsupportedError(f"{name} in another shape and order", "one of the two")
                seen.append((name, shape))
                order = tuple(range(len(shape)))
            at = next(i for i, n in enumerate(nodes) if name in n.results)
            nodes[at] = Node("set", (name,), (Ref(made),), (), nodes[at].line)
        lies.append(order)
    plain = pruned(Definition(tuple(nodes), rest.outputs))
    known = _types(graph)
    types = {r: known[plain_name(r)] for n in plain.nodes for r in n.results
             if plain_name(r) in known}  # fmt: skip
    shapes = {name: _extents(graph, name) for name in rest.outputs} | dict(seen)
    if any(n.op == "cat" for n in plain.nodes):
        plain, types = in_halves(plain, types, shapes)
        shapes = {name: halved(shape) for name, shape in shapes.items()}
        lies, seen = [_in_halves(order) for order in lies], list(shapes.items())
    definition, looks = views_first(plain, types)
    sweep = import_sweep(definition, lies)
    pairs = zip(sweep.results[0].dims, shapes[rest.outputs[0]], strict=True)
    alike = {d: e for d, (has, e) in enumerate(pairs) if has is None and e != ONE}
    if not all(isinstance(e, Const) for e in alike.values()):
        raise UnsupportedError("results that repeat any number of times", "a number that is told")
    sweep = sweep.repeating({d: e.value for d, e in alike.items() if isinstance(e, Const)})
    return Segment(definition, matmul=False, looks=looks, seen=tuple(seen), sweep=sweep)


def _in_halves(order: Order) -> Order:
    """An order of dimensions of which the last, which is the last in memory, is two."""
    last = len(order) - 1
    if order[last] != last:
        raise UnsupportedError("halves of what is not contiguous", "rows that are")
    return (*order, last + 1)


def _node(definition: Definition, name: str) -> Node:
    node = definition.node(name)
    assert node is not None
    return node


def _made(graph: Graph, rest: Definition, name: str) -> str:
    """What a result is before it is put into an order, and looked at in another shape."""
    node = _node(rest, name)
    while node.op in ("stride_order", "reshape") and node.refs[0] not in rest.outputs:
        before = _node(rest, node.refs[0])
        if before.op.startswith("define_"):
            break
        name, node = node.refs[0], before
    return name


def _shape_of(graph: Graph, rest: Definition, name: str) -> object:
    try:
        return _extents(graph, _made(graph, rest, name))
    except UnsupportedError:
        return name


def _extents(graph: Graph, name: str) -> Shape:
    """Extents of a tensor of the whole definition.

    Raises:
        UnsupportedError: they are not known.
    """
    found = _types(graph).get(plain_name(name))
    if found is None or found.spread is None:
        raise UnsupportedError(f"{name} of unknown sizes", "sizes of the inputs'")
    return found.spread


def _types(graph: Graph) -> Mapping[str, TensorType]:
    return graph.types.types


def _order(rest: Definition, orders: Orders, name: str) -> Order:
    said = declared_order(_node(rest, name)) if _node(rest, name).op == "stride_order" else None
    if said is None and orders.is_view(name):
        said, dense = orders.layout(name) or ((), ())
        if not all(dense):
            raise UnsupportedError(f"{name}, a part of what is computed", "whole results")
    order = orders.of(name) if said is None else said
    if order is None:
        raise UnsupportedError(f"{name}, whose order in memory cannot be told", "another result")
    return order
