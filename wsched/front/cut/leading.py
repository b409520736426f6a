"""Views in front of a rest: it reads what they look at as they look at it.

A rest that begins with views of what kernels make (heads out of a linear's rows, in front of rotary
embeddings) is simpler to nvFuser where they are strides of its inputs: it takes some such
definitions so and ends others with errors of its own. A view is one microsecond of the host.
"""

from __future__ import annotations

from collections.abc import Collection

from wsched.front.cut.infer import infer
from wsched.front.cut.looks import move_of, pruned
from wsched.front.cut.order import Orders, by_stride
from wsched.front.cut.tensors import Tensors, dense_input
from wsched.front.look import Look, Move
from wsched.importer import Definition, Node

__all__ = ["with_views_in_front"]

_VIEWS = ("permute", "reshape", "squeeze")


def with_views_in_front(
    definition: Definition, tensors: Tensors, given: Collection[str]
) -> tuple[Definition, tuple[Look, ...]]:
    """A rest that reads views, and these; itself where there are none, or where nvFuser would give
    a result another order in memory.

    Args:
        definition: of the rest.
        tensors: of the definition that it is a part of.
        given: what it reads as it is.
    """
    orders = Orders(definition, infer(definition))
    found: dict[str, Look] = {}
    for node in definition.nodes:
        (name, *_) = node.results
        look = _look(definition, tensors, orders, node, found, given)
        if look is not None:
            found[name] = look
    read = {r for n in definition.nodes if n.results[0] not in found for r in n.refs}
    looks = {n: k for n, k in found.items() if n in read and n not in definition.outputs}
    if not looks:
        return definition, ()
    nodes = (
        _declared(definition, orders, looks[n.results[0]]) if n.results[0] in looks else n
        for n in definition.nodes
    )
    made = pruned(Definition(tuple(nodes), definition.outputs))
    if _lie(made, Orders(made, infer(made))) != _lie(definition, orders):
        return definition, ()
    left = {n.results[0] for n in made.inputs}
    return made, tuple(k for n, k in looks.items() if n in left)


def _look(
    definition: Definition,
    tensors: Tensors,
    orders: Orders,
    node: Node,
    found: dict[str, Look],
    given: Collection[str],
) -> Look | None:
    """What an operation looks at, if it is a view of what another segment makes."""
    (name, *_) = node.results
    move = move_of(node, tensors.types) if node.op in _VIEWS else None
    if move is None or not orders.is_view(name) or orders.layout(name) is None:
        return None
    (source, *_) = node.refs
    if source in found:
        return Look(name, found[source].source, (*found[source].moves, move))
    before = definition.node(source)
    made = before is not None and before.op == "define_tensor" and source not in given
    return Look(name, source, (move,)) if made else None


def _declared(definition: Definition, orders: Orders, look: Look) -> Node:
    """A view as an input."""
    source, layout = definition.node(look.source), orders.layout(look.name)
    assert source is not None and layout is not None
    move: Move = look.moves[-1]
    order, dense = layout
    plain = dense_input(look.name, move.extents, source.get("dtype"), source.line)
    shape = plain.get("shape")
    sizes = shape if isinstance(shape, tuple) else ()
    runs = tuple(None if sizes[at] == 1 else d for at, d in zip(order, dense, strict=True))
    kwargs = tuple((k, runs if k == "contiguity" else v) for k, v in plain.kwargs)
    return Node(
        plain.op, plain.results, (), (*kwargs, ("stride_order", by_stride(order))), plain.line
    )


def _lie(definition: Definition, orders: Orders) -> list[object]:
    """How nvFuser puts each result into memory."""
    return [orders.layout(n) if orders.is_settled(n) else orders.of(n) for n in definition.outputs]
