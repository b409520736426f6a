"""Indices of ``index_select`` as they were given: vectors.

nvFuser broadcasts an index to the dimensions of the table before it looks up, and prints that:
``i`` as ``[1, n]`` for the columns of a matrix. ``fd.ops.index_select`` takes the vector itself and
does the same with it, so that is what is recorded, whichever a text has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wsched.importer.definition import Definition, Node, Ref, Value

__all__ = ["with_vector_indices"]


def with_vector_indices(definition: Definition) -> Definition:
    """The definition with what broadcast indices are broadcast from in their place.

    A ``broadcast`` that nobody else reads is left out.
    """
    vectors = {
        n.results[0]: n.operands[0]
        for n in definition.nodes
        if n.op == "broadcast" and _is_of_a_vector(n)
    }
    nodes = tuple(_looking_up(n, vectors) for n in definition.nodes)
    if nodes == definition.nodes:
        return definition
    read = {*definition.outputs, *(name for n in nodes for name in n.refs)}
    before = {name for n in definition.nodes if n.op == "index_select" for name in n.refs}
    gone = (before & vectors.keys()) - read
    return replace(definition, nodes=tuple(n for n in nodes if n.results[0] not in gone))


def _is_of_a_vector(node: Node) -> bool:
    new = node.argument("is_broadcast_dim", 1)
    return isinstance(new, tuple) and [bool(x) for x in new].count(False) == 1


def _looking_up(node: Node, vectors: Mapping[str, Value]) -> Node:
    index = node.argument("index", 1)
    if node.op != "index_select" or not isinstance(index, Ref):
        return node
    vector = vectors.get(index.name)
    if not isinstance(vector, Ref):
        return node
    operands = tuple(vector if v == index and at else v for at, v in enumerate(node.operands))
    kwargs = tuple((k, vector if k == "index" else v) for k, v in node.kwargs)
    return replace(node, operands=operands, kwargs=kwargs)
