"""A tensor multiplied by itself, ``x · xᵀ``, as two operands.

A kernel has a tensor map for each operand, so one tensor may well be both, but the importer knows
operands by their names. So the second one gets a name of its own: a view of the first that moves
nothing, in front of the cast to fp32 where it is multiplied as such.
"""

from __future__ import annotations

from dataclasses import replace

from wsched.front.cut.looks import exchanges
from wsched.fusion import DataType
from wsched.importer import Definition, Node, Ref
from wsched.importer.definition import Value
from wsched.importer.ops import MATMULS
from wsched.importer.ranks import Ranks

__all__ = ["with_two_operands"]

_AGAIN = "@again"


def with_two_operands(definition: Definition) -> Definition:
    """The same definition with matmuls of two tensors; itself where it has no other.

    A definition may come again in another form, with second operands from the time before: each is
    in front of the first matmul that reads it, once.
    """
    ranks = Ranks.all_of(definition)
    nodes: list[Node] = []
    made: set[str] = set()
    for node in definition.nodes:
        if node.op in MATMULS and (found := _same(definition, node)) is not None:
            name, exchanged = found
            rank = ranks.get(Ref(name))
            if rank is not None and rank >= 2:
                again = _again(name, rank, exchanged, node.line)
                if (cast := _cast(definition, node.factors[1])) is not None:
                    (last, *_) = again[-1].results
                    wide = cast.reading({cast.refs[0]: last})
                    again.append(replace(wide, results=(f"{last}@wide",)))
                nodes += again
                made |= {n.results[0] for n in again}
                second = Ref(again[-1].results[0])
                node = replace(node, operands=(node.operands[0], second, *node.operands[2:]))
        nodes.append(node)
    if not made:
        return definition
    first = {n.results[0]: n for n in reversed(nodes) if n.results[0] in made}
    kept = (n for n in nodes if first.get(n.results[0], n) is n)
    return replace(definition, nodes=tuple(kept))


def _same(definition: Definition, matmul: Node) -> tuple[str, bool] | None:
    """What both operands are, whose last dimensions may be exchanged; whether the second one's are.

    None where they are two tensors.
    """
    found = [_source(definition, v) for v in matmul.factors]
    if len(found) != 2 or None in found:
        return None
    (first, _), (second, exchanged) = (x for x in found if x is not None)
    return (second, exchanged) if first == second else None


def _cast(definition: Definition, value: Value) -> Node | None:
    """What casts an operand to fp32."""
    node = definition.node(value.name) if isinstance(value, Ref) else None
    wide = node is not None and node.op == "cast" and node.get("dtype") is DataType.Float
    return node if wide else None


def _source(definition: Definition, value: Value) -> tuple[str, bool] | None:
    """What is read with its last dimensions exchanged, or as it is; and cast to fp32, or not."""
    if not isinstance(value, Ref):
        return None
    cast = _cast(definition, value)
    name, exchanged = value.name if cast is None else cast.refs[0], False
    while (node := definition.node(name)) is not None and node.op == "permute" and exchanges(node):
        name, exchanged = node.refs[0], not exchanged
    return name, exchanged


def _again(name: str, rank: int, exchanged: bool, line: int) -> list[Node]:
    """The tensor once more, and if need be with its last dimensions exchanged."""
    rows = tuple(range(rank))
    orders = [rows, (*rows[:-2], rows[-1], rows[-2])] if exchanged else [rows]
    nodes: list[Node] = []
    for order in orders:
        result, source = f"{name}{_AGAIN}{'T' * len(nodes)}", name
        if nodes:
            source = nodes[-1].results[0]
        nodes.append(Node("permute", (result,), (Ref(source),), (("dims", order),), line))
    return nodes
