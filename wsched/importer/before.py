"""The dimensions of what an operation looks at otherwise, from those of its result."""

from __future__ import annotations

from wsched.importer.definition import Node
from wsched.importer.ranks import Ranks, places
from wsched.importer.steps import Dims

__all__ = ["dims_before"]


def dims_before(node: Node, dims: Dims, ranks: Ranks) -> Dims:
    """The dimensions in front of a broadcast or a squeeze; any other operation changes none.

    Args:
        node: the operation.
        dims: of its result, as those of the matmul's result that they stand for; those of size 1
            that a squeeze takes away are never those of a dimension.
        ranks: of the definition's names.
    """
    match node.op:
        case "broadcast":
            flags = node.get("is_broadcast_dim")
            kept = zip(dims, flags if isinstance(flags, tuple) else (), strict=True)
            return tuple(d for d, new in kept if not new)
        case "broadcast_in_dim":
            into = node.get("broadcast_dims")
            at = into if isinstance(into, tuple) else ()
            return tuple(dims[p] for p in at if isinstance(p, int))
        case "squeeze":
            rank = ranks.of(node.operands[0])
            said = node.get("dims")
            gone = places(said if isinstance(said, tuple) else (), rank)
            left = iter(dims)
            return tuple("1" if p in gone else next(left) for p in range(rank))
    return dims
