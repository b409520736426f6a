"""``squeeze`` of dimensions that are repeated.

nvFuser sums what repeats itself by one of it, times how many there are: in front of the sum stands
a ``squeeze`` with ``squeeze_expanded`` of dimensions that ``expand`` gave. Whether memory has them
once is nobody's business here, so the first element along them is selected.
"""

from __future__ import annotations

from dataclasses import replace

from wsched.front.cut.tensors import Tensors, numbers_of
from wsched.importer import Definition, Node, Ref
from wsched.importer.definition import Value

__all__ = ["with_selects"]

Said = tuple[tuple[str, Value], ...]
"""Arguments of an operation by name."""


def with_selects(definition: Definition, tensors: Tensors) -> Definition:
    """The definition with a ``select`` of each repeated dimension that is squeezed; itself where
    none is.

    Args:
        definition: whose operations are in order.
        tensors: of it.
    """
    nodes = tuple(made for node in definition.nodes for made in _selected(node, tensors))
    return definition if nodes == definition.nodes else replace(definition, nodes=nodes)


def _selected(node: Node, tensors: Tensors) -> list[Node]:
    """A ``squeeze`` as the operations that it is; any other node alone."""
    source = tensors.types.get(node.refs[0]) if node.op == "squeeze" and node.refs else None
    if source is None or source.dims is None or node.get("squeeze_expanded") is not True:
        return [node]
    rank = len(source.dims)
    gone = {d % rank for d in numbers_of(node.get("dims"))}
    repeated = sorted((d for d in gone if not source.dims[d].is_one), reverse=True)
    ones = tuple(d - sum(r < d for r in repeated) for d in sorted(gone.difference(repeated)))
    (result,), (name,) = node.results, node.refs[:1]
    steps: list[tuple[str, Said]] = [("select", (("index", 0), ("dim", d))) for d in repeated]
    steps += [("squeeze", (("dims", ones),))] if ones else []
    made = list[Node]()
    for left, (op, said) in zip(range(len(steps) - 1, -1, -1), steps, strict=True):
        into = f"{result}@{left}" if left else result
        made.append(Node(op, (into,), (Ref(name),), said, node.line))
        name = into
    return made if repeated else [node]
