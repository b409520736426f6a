"""A group of operations as a definition of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import replace

from lowering.ground.errors import UnsupportedError
from wsched.front.cut.flatten import Seen, flattened
from wsched.front.cut.graph import Graph
from wsched.front.cut.infer import infer
from wsched.front.cut.looks import folded, move_of
from wsched.front.cut.order import Order, Orders, by_stride
from wsched.front.cut.read_apart import read_apart
from wsched.front.cut.tensors import dense_input
from wsched.front.look import Look, Move
from wsched.importer import Definition, Node, Ref

__all__ = ["declared_input", "kernel_part", "operations_of", "part", "plain_name", "views_of"]

_AS_MADE = "@made"
"""Ends the name of what is put into an order in memory."""


def plain_name(name: str) -> str:
    """The name in the whole definition of what a part has."""
    return name.removesuffix(_AS_MADE)


def part(
    graph: Graph, group: frozenset[int], outputs: tuple[str, ...], rest: bool = False
) -> Definition:
    """A group of operations as a definition with these outputs.

    Results get a ``stride_order`` where they would lie otherwise than in the whole.

    Args:
        graph: what they are of.
        group: positions.
        outputs: names of what others need.
        rest: whether others run it.

    Raises:
        UnsupportedError: what it reads of other segments has no memory, or a type that is not
            known.
    """
    made = [graph.home[name] for name in outputs]
    group &= graph.reached(made, group | graph.free)  # what is free may lie between two of them
    nodes: dict[int, list[Node]] = {i: [graph.nodes[i]] for i in group}
    pending = [name for i in group for name in graph.nodes[i].refs]
    declared: set[str] = set()
    while pending:
        name = pending.pop()
        i = graph.home[name]
        if i in group or name in declared:
            continue
        if graph.is_given(i) or i in graph.free:
            nodes[i] = [graph.nodes[i]]
            pending += graph.nodes[i].refs
        elif name not in graph.types:
            raise UnsupportedError(f"the number {name} between segments", "numbers of the inputs")
        else:
            nodes.setdefault(i, []).append(declared_input(graph, name))
        declared.add(name)
    ordered = tuple(n for i in sorted(nodes) for n in nodes[i])
    made_so = Definition(ordered, outputs)
    pins = _pins_of_rest(graph, group, made_so) if rest else _pins_of_kernel(graph, outputs)
    return Definition(_pinned(ordered, pins), outputs) if pins else made_so


def kernel_part(
    graph: Graph, group: frozenset[int], outputs: tuple[str, ...]
) -> tuple[Definition, tuple[Look, ...], Seen]:
    """A kernel's operations as a definition, which inputs are views, and results of other shapes.

    Raises:
        UnsupportedError: as :func:`part`, or tensors that do not lie as one matrix or batch.
    """
    apart, again, types = read_apart(part(graph, group, outputs), graph.types.types)
    plain, views = folded(apart, types)
    definition, seen = flattened(plain, types)
    views = {name: _of_the_whole(view, again) for name, view in views.items()} | again
    shapes = dict(seen)
    looks: list[Look] = []
    for name in (n.results[0] for n in definition.inputs):
        source, moves = (views[name].source, views[name].moves) if name in views else (name, ())
        if name in shapes:
            moves = (*moves, Move("reshape", (), shapes[name]))
        if moves:
            looks.append(Look(name, source, moves))
    return definition, tuple(looks), tuple(x for x in seen if x[0] in outputs)


def _of_the_whole(view: Look, again: Mapping[str, Look]) -> Look:
    """A view of an input that is read a second time, as one of the tensor itself."""
    first = again.get(view.source)
    if first is None:
        return view
    return Look(view.name, first.source, (*first.moves, *view.moves))


def views_of(graph: Graph, rest: Definition) -> tuple[Look, ...]:
    """The results of a rest where each is a view of what another segment makes; else none.

    Args:
        graph: what it is of.
        rest: of :func:`part`.
    """
    given = {n.results[0] for n in rest.inputs}
    found: list[Look] = []
    for name in rest.outputs:
        source, moves = name, list[Move]()
        while source not in given:
            node = rest.node(source)
            move = None if node is None else move_of(node, graph.types.types)
            if node is None or move is None or not graph.orders.is_view(source):
                return ()
            source, moves = node.refs[0], [move, *moves]
        if graph.is_given(graph.home[source]):  # a result that shares an input's memory
            return ()
        found.append(Look(name, source, tuple(moves)))
    return tuple(found)


def operations_of(graph: Graph, made: Definition) -> frozenset[int]:
    """The operations that :func:`part` was given, but for those that every segment does for
    itself.
    """
    names = (plain_name(r) for n in made.nodes for r in n.results)
    given = {n.results[0] for n in made.inputs}
    found = {graph.home[name] for name in names if name not in given}
    return frozenset(i for i in found if i not in graph.free and not graph.is_given(i))


def _pins_of_kernel(graph: Graph, outputs: tuple[str, ...]) -> dict[str, Order]:
    """The results that nvFuser would not put into rows; a kernel does."""
    own = [n for n in outputs if n in graph.definition.outputs and not graph.orders.is_settled(n)]
    found = ((name, graph.orders.of(name)) for name in own)
    return {name: order for name, order in found if order and order != _rows(order)}


def _pins_of_rest(graph: Graph, group: frozenset[int], part: Definition) -> dict[str, Order]:
    """The results that nvFuser would find another order for than in the whole.

    What another segment reads lies row by row, as the reader is told. What has been moved is given
    its order also where nvFuser would find it, because torch does not.
    """
    inside = Orders(part, infer(part))
    found: dict[str, Order] = {}
    for name in part.outputs:
        if name not in graph.types:
            continue
        if name not in graph.definition.outputs:
            wanted: Order | None = _rows(graph.types[name].dims or ())
        elif graph.orders.is_settled(name):
            continue
        else:
            wanted = graph.orders.of(name)
        moved = graph.is_moved(graph.home[name], group)
        if wanted is not None and (moved or inside.of(name) not in (wanted, None)):
            found[name] = wanted
    return found


def _rows(dims: Sized) -> Order:
    return tuple(range(len(dims)))


def _pinned(nodes: tuple[Node, ...], pins: Mapping[str, Order]) -> tuple[Node, ...]:
    """With these results in these orders in memory."""
    made, found = {name: name + _AS_MADE for name in pins}, []
    for node in nodes:
        results = tuple(made.get(r, r) for r in node.results)
        found.append(replace(node.reading(made), results=results))
        for name in node.results:
            if name in pins:
                order = ("stride_order", by_stride(pins[name]))
                source = (Ref(made[name]),)
                found.append(Node("stride_order", (name,), source, (order,), node.line))
    return tuple(found)


def declared_input(graph: Graph, name: str) -> Node:
    """What another segment makes, as an input: dense, in rows unless nvFuser has it otherwise."""
    tensor, order = graph.types[name], graph.types.orders.get(name, ())
    extents = tensor.extents
    if tensor.dtype is None or not tensor.dtype.is_stored or extents is None or order is None:
        raise UnsupportedError(
            f"{name}, expanded, within another tensor or of an unknown type, between segments",
            "tensors in memory of their own",
        )
    said = (("stride_order", by_stride(order)),) if order else ()
    return dense_input(name, extents, tensor.dtype, graph.nodes[graph.home[name]].line, *said)
