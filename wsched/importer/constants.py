"""Numbers of a definition: literals, constants and what is computed from them alone."""

from __future__ import annotations

import struct

from lowering.ground.errors import UnsupportedError
from wsched.fusion.names import ROWS
from wsched.importer.definition import Definition, Node, Ref, Value, text_of
from wsched.importer.ops import SCALAR

__all__ = ["exact", "number", "same_size", "squeezed", "values_of"]


def number(definition: Definition, value: Value) -> float:
    """The value of a literal, a constant or an operation on them.

    Raises:
        UnsupportedError: it is no number, or made by an operation that is not folded.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    node = definition.node(value.name) if isinstance(value, Ref) else None
    if node is None:
        raise UnsupportedError(f"the operand {text_of(value)}", "tensors and numbers")
    if node.op == "define_scalar":
        return number(definition, node.operands[0])
    if node.op not in SCALAR:
        raise UnsupportedError(
            f"line {node.line}: fd.ops.{node.op} of constants alone",
            f"of constants: fd.ops.{{{', '.join(SCALAR)}}}",
        )
    return _fold(node, [number(definition, v) for v in node.operands[: _arity(node)]])


def _arity(node: Node) -> int:
    return 1 if node.op in ("cast", "neg") else 2


def _fold(node: Node, operands: list[float]) -> float:
    match node.op, operands:
        case "cast", [x]:
            return x
        case "neg", [x]:
            return -x
        case "add", [x, y]:
            return x + y
        case "sub", [x, y]:
            return x - y
        case "mul", [x, y]:
            return x * y
        case (("div" | "truediv"), [x, y]) if y:
            return x / y
    raise UnsupportedError(f"fd.ops.{node.op} of {operands}", "defined results")


def same_size(definition: Definition, matmul: Node, size: Value, axis: str) -> bool:
    """Whether ``size``, in the shape of an expand, is that of the matmul's dimension ``axis``.

    ``fd.ops.size`` of a tensor is taken at its word (nvFuser checks it), a number is compared with
    the size that the definition fixes; -1 leaves a dimension as it is.
    """
    if isinstance(size, Ref):
        node = definition.node(size.name)
        return node is not None and node.op == "size"
    operands = [*matmul.operands, *(v for _, v in matmul.kwargs)][:2]
    source = operands[0 if axis == ROWS else 1]
    node = definition.node(source.name) if isinstance(source, Ref) else None
    while node is not None and node.op in ("permute", "stride_order"):
        inner = node.operands[0]
        node = definition.node(inner.name) if isinstance(inner, Ref) else None
    shape = node.get("shape") if node is not None else None
    return size == -1 or (isinstance(shape, tuple) and size in shape)


def values_of(node: Node) -> list[Value]:
    """The operands of a pointwise operation, in order."""
    return [*node.operands, *(v for _, v in node.kwargs)]


def squeezed(node: Node) -> list[int]:
    """The dimensions that a squeeze drops."""
    dims = node.argument("dims", 1)
    return [d for d in dims if isinstance(d, int)] if isinstance(dims, tuple) else []


def exact(x: object) -> bool:
    """Whether fp32 holds a number exactly, so that its type does not matter."""
    return isinstance(x, float) and struct.unpack("f", struct.pack("f", x))[0] == x
