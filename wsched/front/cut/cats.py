"""What a ``cat`` puts behind each other: nvFuser writes one as a sum of tensors with zeros around
them.
"""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ZERO, Const, Expr
from lowering.ground.poly import poly
from wsched.front.cut.tensors import Tensors, numbers_of
from wsched.importer import Definition, Node, Ref
from wsched.importer.constants import Numbers
from wsched.importer.definition import Value

__all__ = ["plain_cat", "same", "size_of", "through"]

Kwargs = tuple[tuple[str, Value], ...]


def plain_cat(definition: Definition, node: Node, tensors: Tensors) -> tuple[int, list[str]] | None:
    """Along which dimension a ``cat`` puts which tensors behind each other, as they were before
    zeros were put around them, as nvFuser writes it; None of other operations and other zeros.

    Args:
        definition: which it is of.
        node: any operation.
        tensors: of the definition.
    """
    listed, along = node.argument("tensors", 0), node.argument("dim", 1)
    if node.op != "cat" or not isinstance(listed, tuple) or not isinstance(along, int | None):
        return None
    result = tensors.types.get(node.results[0])
    names = [v.name for v in listed if isinstance(v, Ref) and v.name in tensors]
    if result is None or not result.dims or len(names) < max(len(listed), 2):
        return None
    dim = (along or 0) % len(result.dims)
    if not node.argument("manual_padding", 2):
        return dim, names
    past: Expr = ZERO
    found = list[str]()
    total = result.dims[dim].extent
    for name in names:
        pad = definition.node(name)
        if pad is None or pad.op != "pad" or not _is_zero(definition, pad):
            return None
        source = pad.refs[0]
        dims, widths = tensors[source].dims or (), pad.argument("pad_widths", 1)
        extent = dims[dim].extent if dim < len(dims) else None
        if extent is None or total is None or not isinstance(widths, tuple):
            return None
        wanted: dict[int, Expr] = {}
        first = 2 * (len(dims) - 1 - dim)
        wanted[first], wanted[first + 1] = past, total - past - extent
        for at, value in enumerate(widths):
            if not same(size_of(tensors, value), wanted.get(at, ZERO)):
                return None
        past = past + extent
        found.append(source)
    return (dim, found) if same(past, total) else None


def _is_zero(definition: Definition, pad: Node) -> bool:
    value = pad.argument("value", 2)
    try:
        return value is None or Numbers(definition).of(value) == 0.0
    except UnsupportedError:
        return False


def size_of(tensors: Tensors, value: Value) -> Expr | None:
    """A size in a definition, in the extents of the inputs; None if it is not told."""
    if isinstance(value, Ref):
        return tensors.numbers.get(value.name)
    return Const(value) if isinstance(value, int) else None


def same(a: Expr | None, b: Expr | None) -> bool:
    """Whether two sizes are known to be equal."""
    return a is not None and b is not None and poly(a).apart(poly(b)) == 0


def through(tensors: Tensors, node: Node, dim: int, size: int) -> tuple[int | None, Kwargs]:
    """The dimension of an operation's operand that one of its result is, None where it is none
    or the operation more than a cast or a repetition; its arguments for a part of that size.

    Args:
        tensors: of the definition.
        node: the operation.
        dim: of its result, from the first one on.
        size: of the part.
    """
    kwargs = dict(node.kwargs)
    match node.op:
        case "cast":
            return dim, node.kwargs
        case "broadcast" if isinstance(new := node.get("is_broadcast_dim"), tuple):
            return (None if new[dim] else new[:dim].count(False)), node.kwargs
        case "broadcast_in_dim" if isinstance(shape := node.get("shape"), tuple):
            into = numbers_of(node.get("broadcast_dims"))
            source = tensors[node.refs[0]].dims or ()
            if dim in into and not source[into.index(dim)].is_one:
                kwargs["shape"] = (*shape[:dim], size, *shape[dim + 1 :])
                return into.index(dim), tuple(kwargs.items())
    return None, node.kwargs
