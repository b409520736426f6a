"""Operations on tensors as they were before dimensions of size 1, or leading ones, were put away,
or as they are behind that.

A program that multiplies ``[B, T, K]`` by a matrix may do so in matrices: it takes the leading
dimensions together, multiplies, and takes them apart again; and it sums such a matrix. A view
behind a matmul ends its kernel, and what follows has the tensor's dimensions. So matmuls and
reductions are written in those. Likewise a product of ``[B, T, K]`` whose leading dimensions are
taken together behind it is one of its operand's, taken together. What they read and write lies in
memory as before.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.expr import Const
from wsched.front.cut.tensors import Dim, Tensors
from wsched.importer import Definition, Node, Ref
from wsched.importer.definition import Value
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
    gone = {nodes[-1].results[0] for nodes in made.values()}
    for node in definition.nodes:
        if (reduction := _reduction(definition, tensors, node)) is not None:
            made[node.results[0]] = (reduction,)
    if not made:
        return definition
    kept = (n for n in definition.nodes if n.results[0] not in gone)
    nodes = (node for n in kept for node in made.get(n.results[0], (n,)))
    return replace(definition, nodes=tuple(nodes))


def _matmuls(definition: Definition, tensors: Tensors) -> dict[str, tuple[Node, ...]]:
    """By the names of products the matmuls whose results are the views behind them, with what they
    read in front.
    """
    readers: dict[str, list[Node]] = {}
    for node in definition.nodes:
        for name in dict.fromkeys(node.refs):
            readers.setdefault(name, []).append(node)
    made: dict[str, tuple[Node, ...]] = {}
    for node in (n for n in definition.nodes if n.op in MATMULS):
        (name,) = node.results
        behind, before = readers.get(name, []), definition.node(node.refs[0])
        if name in definition.outputs or len(behind) != 1:
            continue
        view = behind[0].results[0]
        if behind[0].op in _APART and before is not None and before.op in _TOGETHER:
            source = before.refs[0]
            if _is_apart(tensors, source, node, view):
                operands = (Ref(source), *node.operands[1:])
                made[name] = (replace(node, results=(view,), operands=operands),)
        elif behind[0].op == "reshape" and _is_dense(before):
            shape = _rows_together(tensors, node, behind[0])
            if shape is not None:
                made[name] = _of_rows(node, behind[0], shape)
    return made


def _of_rows(matmul: Node, view: Node, shape: tuple[Value, ...]) -> tuple[Node, Node]:
    """A matmul whose first operand is looked at as of this shape, for a view of its result."""
    first, *others = matmul.operands
    rows = f"{matmul.refs[0]}@{view.results[0]}"
    look = replace(view, results=(rows,), operands=(first,), kwargs=(("new_shape", shape),))
    return look, replace(matmul, results=view.results, operands=(Ref(rows), *others))


def _is_dense(operand: Node | None) -> bool:
    """Whether a tensor lies in memory whole, row by row, so that its rows are a view of it."""
    if operand is None or operand.op != "define_tensor":
        return operand is not None
    lies = operand.get("contiguity")
    whole = lies is True or (isinstance(lies, tuple) and all(x is not False for x in lies))
    order = operand.get("stride_order")
    rank = len(order) if isinstance(order, tuple) else 0
    return whole and (not rank or order == tuple(reversed(range(rank))))


def _rows_together(tensors: Tensors, matmul: Node, view: Node) -> tuple[Value, ...] | None:
    """The sizes of the first operand as a view of the product has it, which takes leading
    dimensions together; None of another view, or where a size is not told.
    """
    names = *matmul.refs[:2], matmul.results[0], view.results[0]
    if any(n not in tensors for n in names):
        return None
    rows, other, product, seen = (tensors[n].dims or () for n in names)
    shape = view.get("new_shape")
    if not (isinstance(shape, tuple) and len(other) == 2 <= len(seen) < len(rows) == len(product)):
        return None
    if len(shape) != len(seen) or not _same(seen[-1], product[-1]):
        return None
    if not all(_same(a, b) for a, b in zip(rows[:-1], product[:-1], strict=True)):
        return None
    columns = rows[-1].extent
    last = columns.value if isinstance(columns, Const) else -1
    return None if last == -1 and -1 in shape[:-1] else (*shape[:-1], last)


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
