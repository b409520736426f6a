"""Operations on tensors as they were before dimensions of size 1, or leading ones, were put away.

A program that multiplies ``[B, T, K]`` by a matrix may do so in matrices: it takes the leading
dimensions together, multiplies, and takes them apart again; and it sums such a matrix. A view
behind a matmul ends its kernel, and what follows has the tensor's dimensions. So matmuls and
reductions are written in those. What they read and write lies in memory as before.
"""

from __future__ import annotations

from dataclasses import replace

from wsched.front.cut.tensors import Dim, Tensors
from wsched.importer import Definition, Node, Ref
from wsched.importer.dimensions import reduced_dims
from wsched.importer.ops import MATMULS
from wsched.importer.steps import REDUCED

__all__ = ["lifted"]

_TOGETHER, _APART = ("reshape", "squeeze"), ("broadcast", "reshape")


def lifted(definition: Definition, tensors: Tensors) -> Definition:
    """The definition with matmuls in the shapes of the views behind them, and reductions in those
    of the tensors before a ``squeeze``; itself without either.

    Args:
        definition: whose operations are in order.
        tensors: of it.
    """
    made = _matmuls(definition, tensors)
    gone = {n.results[0] for n in made.values()}
    made |= {n.results[0]: m for n in definition.nodes if (m := _reduction(definition, tensors, n))}
    if not made:
        return definition
    nodes = (made.get(n.results[0], n) for n in definition.nodes if n.results[0] not in gone)
    return replace(definition, nodes=tuple(nodes))


def _matmuls(definition: Definition, tensors: Tensors) -> dict[str, Node]:
    """By the names of products of matrices the matmuls whose results are the views behind them."""
    readers: dict[str, list[Node]] = {}
    for node in definition.nodes:
        for name in dict.fromkeys(node.refs):
            readers.setdefault(name, []).append(node)
    made: dict[str, Node] = {}
    for node in (n for n in definition.nodes if n.op in MATMULS):
        (name,) = node.results
        behind, before = readers.get(name, []), definition.node(node.refs[0])
        if name in definition.outputs or len(behind) != 1 or behind[0].op not in _APART:
            continue
        if before is not None and before.op in _TOGETHER:
            (view,), source = behind[0].results, before.refs[0]
            if _is_apart(tensors, source, node, view):
                operands = (Ref(source), *node.operands[1:])
                made[name] = replace(node, results=(view,), operands=operands)
    return made


def _is_apart(tensors: Tensors, source: str, matmul: Node, view: str) -> bool:
    """Whether a view of a product of matrices has the first operand's dimensions, as they were
    before they were taken together, and the product's columns.
    """
    names = source, matmul.refs[0], matmul.refs[1], matmul.results[0], view
    if any(n not in tensors for n in names):
        return False
    whole, rows, other, product, seen = (tensors[n].dims or () for n in names)
    if not len(rows) == len(other) == len(product) == 2 < len(whole) == len(seen):
        return False
    pairs = [*zip(whole[:-1], seen[:-1], strict=True), (whole[-1], rows[-1])]
    return all(_same(a, b) for a, b in (*pairs, (seen[-1], product[-1])))


def _same(a: Dim, b: Dim) -> bool:
    known = a.extent is not None and not a.repeated and not b.repeated
    return known and a.extent == b.extent


def _reduction(definition: Definition, tensors: Tensors, node: Node) -> Node | None:
    """A reduction of what a ``squeeze`` is of; None of any other operation."""
    if node.op not in REDUCED or node.get("keepdim") is True:
        return None
    before = definition.node(node.refs[0])
    if before is None or before.op != "squeeze" or before.refs[0] not in tensors:
        return None
    dims, said = tensors[before.refs[0]].dims, before.get("dims")
    if dims is None or not isinstance(said, tuple):
        return None
    gone = {d % len(dims) for d in said if isinstance(d, int)}
    left = [d for d in range(len(dims)) if d not in gone]
    over = tuple(sorted({*gone, *(left[d] for d in reduced_dims(node, len(left)))}))
    dtype = node.get("dtype")
    kwargs = (("dims", over), *((("dtype", dtype),) if dtype is not None else ()))
    return replace(node, operands=(Ref(before.refs[0]),), kwargs=kwargs)
