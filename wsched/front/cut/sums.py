"""A definition written so that both matmuls of a sum can be one kernel.

In ``x · Wᵀ + s · (x · Aᵀ) · Bᵀ`` a kernel makes t = x · Aᵀ, another one the sum, with K over the
pairs (x, W) and (t, B) (:mod:`wsched.importer.sums`). For that the first matmul has to stand behind
t, and a factor of the second one has to be a factor of t: of a power of two that changes no bit,
but where 16 bits cannot hold the product, which bfloat16 as good as always can.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import frexp, isfinite

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer import Definition, Node, Ref
from wsched.importer.constants import number
from wsched.importer.definition import Value
from wsched.importer.ops import MATMULS
from wsched.importer.sums import is_biased, sums

__all__ = ["LARGEST_FACTOR", "arranged", "partners"]

LARGEST_FACTOR = 2.0**16
"""Of t: bfloat16 has 2^127, and a product that comes near would not be summed up either."""


def arranged(definition: Definition) -> Definition:
    """The same definition with factors in front and sums of matmuls together; itself where it has
    none.
    """
    scaled = _scaled(definition)
    for s in sums(scaled):
        a, b = sorted((s.first, s.second), key=scaled.nodes.index)
        before = scaled.nodes[: scaled.nodes.index(b)]
        behind = before[before.index(a) + 1 :]
        if any(n.op in MATMULS for n in behind):
            late = {a, *(n for n in behind if {*n.results} & {s.top, *s.gone})}
            order = [n for n in before if n not in late]
            order += [n for n in before if n in late]
            nodes = (*order, *scaled.nodes[len(before) :])
            scaled = replace(scaled, nodes=nodes)
    return scaled


def partners(definition: Definition) -> dict[int, int]:
    """Of each sum the positions of its matmuls, the later one by the earlier one."""
    at = {n.results[0]: i for i, n in enumerate(definition.nodes)}
    found = ((at[s.first.results[0]], at[s.second.results[0]]) for s in sums(definition))
    return {min(pair): max(pair) for pair in found}


def _scaled(definition: Definition) -> Definition:
    """Powers of two that a summand is multiplied by, as factors of what a matmul in front made."""
    reads = Counter(ref for n in definition.nodes for ref in n.refs)
    reads.update(definition.outputs)
    for node in definition.nodes:
        matmul = _summand(definition, node, reads)
        factor = _factor(definition, node)
        if matmul is None or factor is None:
            continue
        (wide,) = (v for v in node.operands if isinstance(v, Ref) and _is_tensor(definition, v))
        found = _with_factor(definition, node, matmul, wide, factor)
        if sums(found) != sums(definition):
            return _scaled(found)
    return definition


def _is_tensor(definition: Definition, value: Ref) -> bool:
    """Whether a name stands for a tensor that may be a summand: a matmul, or a cast."""
    node = definition.node(value.name)
    return node is not None and (node.op in MATMULS or node.op == "cast")


def _factor(definition: Definition, node: Node) -> float | None:
    """The power of two that a tensor is multiplied by; None of any other operation."""
    if node.op != "mul" or len(node.operands) != 2:
        return None
    found = []
    for value in node.operands:
        if isinstance(value, Ref) and _is_tensor(definition, value):
            continue
        try:
            found.append(number(definition, value))
        except UnsupportedError:
            return None
    if len(found) != 1 or not isfinite(found[0]) or abs(frexp(found[0])[0]) != 0.5:
        return None
    return found[0] if 1 / LARGEST_FACTOR <= abs(found[0]) <= LARGEST_FACTOR else None


def _summand(definition: Definition, node: Node, reads: Counter[str]) -> Node | None:
    """The matmul of bfloat16 that an operation multiplies, nobody else reads, and of whose first
    operand another matmul is the maker.
    """
    if node.op != "mul" or reads[node.results[0]] != 1:
        return None
    for value in node.operands:
        found = definition.node(value.name) if isinstance(value, Ref) else None
        if found is not None and found.op == "cast" and reads[found.results[0]] == 1:
            found = definition.node(found.refs[0]) if found.refs else None
        if found is None or found.op not in MATMULS or reads[found.results[0]] != 1:
            continue
        made = definition.node(found.refs[0])
        if made is not None and made.op in MATMULS and _is_bfloat16(definition, made):
            return None if is_biased(found) else found
    return None


def _is_bfloat16(definition: Definition, matmul: Node) -> bool:
    """Whether a matmul's second operand, a weight, is of that type, and so all of it."""
    node = definition.node(matmul.refs[1])
    while node is not None and node.op != "define_tensor":
        node = definition.node(node.refs[0]) if node.op == "permute" else None
    return node is not None and node.get("dtype") is DataType.BFloat16


def _with_factor(
    definition: Definition, node: Node, matmul: Node, wide: Ref, factor: float
) -> Definition:
    """The factor in front of a matmul, in place of behind it."""
    t, (product,) = matmul.refs[0], node.results
    names = [f"{t}@{word}{matmul.line}" for word in ("wide", "times", "scaled")]
    as_fp32, narrow = (("dtype", kind) for kind in (DataType.Float, DataType.BFloat16))
    front = (
        Node("cast", (names[0],), (Ref(t),), (as_fp32,), matmul.line),
        Node("mul", (names[1],), (Ref(names[0]), factor), (), matmul.line),
        Node("cast", (names[2],), (Ref(names[1]),), (narrow,), matmul.line),
    )
    nodes: list[Node] = []
    for n in definition.nodes:
        if n is matmul:
            operands: tuple[Value, ...] = (Ref(names[2]), *matmul.operands[1:])
            nodes += [*front, replace(matmul, operands=operands)]
        elif n is not node:
            moved = tuple(wide if v == Ref(product) else v for v in n.operands)
            nodes.append(replace(n, operands=moved))
    return replace(definition, nodes=tuple(nodes))
