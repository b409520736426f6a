"""Operands of 16 bits that a definition multiplies as fp32: views first, then the casts.

    linear(permute(cast(x)), cast(w))  =  linear(cast(permute(x)), cast(w))

A cast to more bits is exact, so a kernel multiplies what is cast, and its result is the fp32 sum
(:mod:`wsched.importer.operands`). The cast is the last step then, and the matmul's own, whoever
else reads one; what is in front of it is an operand as others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from wsched.front.cut.looks import LOOKS
from wsched.front.cut.tensors import Tensors
from wsched.fusion import DataType
from wsched.importer import Definition, Node
from wsched.importer.ops import MATMULS

__all__ = ["widened", "with_casts_last"]

_VIEWS = (*LOOKS, "broadcast_in_dim", "expand")


def widened(tensors: Tensors, nodes: Iterable[Node]) -> bool:
    """Whether operations are casts of one type of 16 bits to fp32."""
    kinds = {_narrow(tensors, node) for node in nodes}
    return len(kinds) == 1 and None not in kinds


def _narrow(tensors: Tensors, node: Node) -> DataType | None:
    """The type of 16 bits that is cast to fp32; None of another operation."""
    if node.op != "cast" or not node.refs:
        return None
    wide, narrow = (tensors.types.get(n) for n in (node.results[0], node.refs[0]))
    if wide is None or narrow is None or wide.dtype is not DataType.Float:
        return None
    return narrow.dtype if narrow.dtype in (DataType.BFloat16, DataType.Half) else None


def with_casts_last(definition: Definition, tensors: Tensors) -> Definition:
    """The definition with matmuls of such operands as matmuls of casts of their own; itself where
    there is none.

    Args:
        definition: whose operations are in order.
        tensors: of it.
    """
    nodes: list[Node] = []
    made: dict[str, str] = {}
    for node in definition.nodes:
        operands = {n: _chain(definition, n) for n in node.refs[:2]} if node.op in MATMULS else {}
        if widened(tensors, (chain[0] for chain in operands.values())):
            for name in (n for n in operands if n not in made):
                cast, *views = operands[name]
                nodes += _cast_last(cast, views)
                made[name] = nodes[-1].results[0]
            node = node.reading({name: made[name] for name in operands})
        nodes.append(node)
    return replace(definition, nodes=tuple(nodes)) if made else definition


def _chain(definition: Definition, name: str) -> tuple[Node, ...]:
    """A tensor's last views, and first of all what they are of."""
    node = definition.node(name)
    assert node is not None, name
    return (*(_chain(definition, node.refs[0]) if node.op in _VIEWS else ()), node)


def _cast_last(cast: Node, views: Sequence[Node]) -> Iterator[Node]:
    """Views of what is cast, then the cast."""
    source = cast.refs[0]
    for view in views:
        name = f"{view.results[0]}@narrow"
        yield replace(view.reading({view.refs[0]: source}), results=(name,))
        source = name
    last = (cast, *views)[-1].results[0]
    yield replace(cast.reading({cast.refs[0]: source}), results=(f"{last}@wide",))
