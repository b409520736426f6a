"""Orders in memory as they were given: nvFuser prints none, ``[]``, for rows."""

from __future__ import annotations

from dataclasses import replace

from wsched.importer.definition import Definition, Node, Ref
from wsched.importer.ranks import Ranks

__all__ = ["with_whole_orders"]


def with_whole_orders(definition: Definition) -> Definition:
    """The definition with a rank for each dimension in every ``stride_order``."""
    if all(n.get("stride_order") != () for n in definition.nodes):
        return definition
    ranks = Ranks()

    def whole(node: Node) -> Node:
        ranks.enter(node)
        if node.get("stride_order") != ():
            return node
        rows = tuple(reversed(range(ranks.of(Ref(node.results[0])))))
        kwargs = tuple((k, rows if k == "stride_order" else v) for k, v in node.kwargs)
        return replace(node, kwargs=kwargs)

    return replace(definition, nodes=tuple(map(whole, definition.nodes)))
