"""Places of ``broadcast_in_dim`` from the front: nvFuser counts those below 0 from the end."""

from __future__ import annotations

from dataclasses import replace

from wsched.importer.definition import Definition, Node, Value
from wsched.importer.ranks import Ranks

__all__ = ["with_places_from_the_front"]

_PLACES = "broadcast_dims"


def with_places_from_the_front(definition: Definition) -> Definition:
    """The definition with no place below 0; what is no place of the shape is left to be refused."""
    if not any(_counts_back(n.get(_PLACES)) for n in definition.nodes):
        return definition
    ranks = Ranks()

    def whole(node: Node) -> Node:
        ranks.enter(node)
        places, shape = node.get(_PLACES), node.argument("shape", 1)
        if not isinstance(places, tuple):
            return node
        rank = len(shape) if isinstance(shape, tuple) else ranks.of(shape)
        front = tuple(
            p + rank if isinstance(p, int) and -rank <= p < 0 else p
            for p in places
        )  # fmt: skip
        kwargs = tuple((k, front if k == _PLACES else v) for k, v in node.kwargs)
        return replace(node, kwargs=kwargs)

    return replace(definition, nodes=tuple(map(whole, definition.nodes)))


def _counts_back(places: Value) -> bool:
    return isinstance(places, tuple) and any(isinstance(p, int) and p < 0 for p in places)
