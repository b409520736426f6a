"""Sums of two matmuls that share nothing: one fusion with lists of both operands along K.

``x · Wᵀ + t · Bᵀ`` is one matmul of [x | t] by [W | B], so one accumulator does: a linear with a
correction of low rank (LoRA), whose t a kernel in front has made. That one accumulator cannot round
the summands, which a definition rounds to 16 bits each, so their sum is nearer to the exact one
(design/0008-epilogue.md).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from wsched.fusion.types import DataType
from wsched.importer.definition import Definition, Node, Ref, Value
from wsched.importer.ops import MATMULS
from wsched.importer.products import unrounded

__all__ = ["Sum", "is_biased", "summands", "sums"]


@dataclass(frozen=True, slots=True)
class Sum:
    """An addition of two matmuls that nothing else reads.

    Args:
        add: the addition.
        first: the matmul that keeps its place, with its bias.
        second: the other one, which has no bias.
        top: what the addition reads of the first one: it, or a cast of it.
        gone: names between the second one and the addition, its own included.
    """

    add: Node
    first: Node
    second: Node
    top: str
    gone: tuple[str, ...]


def sums(definition: Definition) -> tuple[Sum, ...]:
    """All such additions, in the order of the definition."""
    reads = Counter(ref for n in definition.nodes for ref in n.refs)
    reads.update(definition.outputs)
    found = []
    for node in definition.nodes:
        if node.op != "add" or len(node.operands) != 2:
            continue
        chains = [_chain(definition, v, reads) for v in node.operands]
        if all(chains):
            a, b = (definition.node(chain[-1]) for chain in chains)
            assert a is not None and b is not None
            if is_biased(b):
                a, b, chains = b, a, chains[::-1]
            if a.op == b.op and not is_biased(b) and not {*a.refs[:2]} & {*b.refs[:2]}:
                found.append(Sum(node, a, b, chains[0][0], chains[1]))
    return tuple(found)


def summands(definition: Definition) -> tuple[Definition, ...]:
    """The definition with either matmul of its first such sum alone; nothing where it has none."""
    found = sums(definition)
    if not found:
        return ()
    s = found[0]
    alone = Node("cast", s.add.results, (Ref(s.top),), (("dtype", DataType.Float),), s.add.line)
    made = []
    for of in (s.first, s.second):
        pair: tuple[Value, ...] = (*of.operands[:2], *s.first.operands[2:])
        product = unrounded(replace(s.first, operands=pair))
        # The second one may be of what is made behind the first: it stands where both are known.
        behind = max((s.first, s.second), key=definition.nodes.index)
        nodes = list[Node]()
        for node in definition.nodes:
            if node is behind:
                nodes += [product, *_casts(definition, s)]
            elif node is s.add:
                nodes.append(alone)
            elif node not in (s.first, s.second) and not {s.top, *s.gone} & {*node.results}:
                nodes.append(node)
        made.append(Definition(tuple(nodes), definition.outputs))
    return tuple(made)


def _casts(definition: Definition, s: Sum) -> tuple[Node, ...]:
    """The cast of the first one that is added, if it is one."""
    top = definition.node(s.top)
    return () if top is None or top is s.first else (top,)


def _chain(definition: Definition, value: Value, reads: Counter[str]) -> tuple[str, ...]:
    """Names from a summand to the matmul that it is, all read once; empty if it is none."""
    found: list[str] = []
    while isinstance(value, Ref) and reads[value.name] == 1:
        node = definition.node(value.name)
        found.append(value.name)
        if node is not None and node.op in MATMULS:
            return tuple(found)
        wide = node is not None and node.op == "cast" and node.get("dtype")
        if node is None or wide is not DataType.Float or len(found) > 1:
            return ()
        value = node.operands[0]
    return ()


def is_biased(matmul: Node) -> bool:
    """Whether a matmul has a bias."""
    return len(matmul.operands) > 2 or matmul.get("bias") is not None
