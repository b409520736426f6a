"""Numbers of a definition: literals, constants and what is computed from them alone."""

from __future__ import annotations

import operator
import struct
from collections.abc import Generator
from dataclasses import dataclass, field

from lowering.ground.errors import UnsupportedError
from lowering.ground.resolve import resolve
from wsched.fusion.names import COLS, ROWS
from wsched.importer.definition import Definition, Node, Ref, Value, text_of
from wsched.importer.ops import SCALAR

__all__ = ["Numbers", "exact", "number", "same_size"]


_COMPARISONS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}


@dataclass
class Numbers:
    """What a definition computes of constants, each found once.

    Args:
        definition: whose names these are.
    """

    definition: Definition
    _numbers: dict[str, float] = field(default_factory=dict)
    _read: dict[str, bool] = field(default_factory=dict)

    def of(self, value: Value) -> float:
        """The value of a literal, a constant or an operation on them.

        Raises:
            UnsupportedError: it is no number, or made by an operation that is not folded.
        """
        if isinstance(value, Ref):
            return resolve(value.name, self._number, self._numbers)
        return _literal(value)

    def reads_tensor(self, node: Node) -> bool:
        """Whether a node without dimensions depends on a tensor or a run-time scalar."""
        names = (v.name for v in node.arguments if isinstance(v, Ref))
        return any(resolve(name, self._reads, self._read) for name in names)

    def _number(self, name: str) -> Generator[str, float, float]:
        node = self.definition.node(name)
        if node is None:
            raise _no_number(Ref(name))
        if node.op not in ("define_scalar", *SCALAR):
            raise UnsupportedError(
                f"line {node.line}: fd.ops.{node.op} of constants alone",
                f"of constants: fd.ops.{{{', '.join(SCALAR)}}}",
            )
        operands = []
        for v in node.operands:
            operands.append((yield v.name) if isinstance(v, Ref) else _literal(v))
        return _fold(node, operands)

    def _reads(self, name: str) -> Generator[str, bool, bool]:
        node = self.definition.node(name)
        if node is None or node.op == "size":
            return False
        if node.op in ("define_scalar", "define_tensor"):
            return node.is_input
        for v in node.arguments:
            if isinstance(v, Ref) and (yield v.name):
                return True
        return False


def number(definition: Definition, value: Value) -> float:
    """One of :class:`Numbers`; raises as :meth:`Numbers.of`."""
    return Numbers(definition).of(value)


def _literal(value: Value) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise _no_number(value)


def _no_number(value: Value) -> UnsupportedError:
    return UnsupportedError(f"the operand {text_of(value)}", "tensors and numbers")


def _fold(node: Node, operands: list[float]) -> float:
    match node.op, operands:
        case (("define_scalar" | "cast"), [x]):
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
        case "reciprocal", [x] if x:
            return 1 / x
        case "where", [condition, x, y]:
            return x if condition else y
        case _, [x, y] if node.op in _COMPARISONS:
            return float(_COMPARISONS[node.op](x, y))
    raise UnsupportedError(f"fd.ops.{node.op} of {operands}", "defined results")


def same_size(definition: Definition, matmul: Node, size: Value, axis: str) -> bool:
    """Whether ``size``, in the shape of an expand, is that of the matmul's dimension ``axis``.

    ``fd.ops.size`` of a tensor is taken at its word (nvFuser checks it), a number is compared with
    the size that the definition fixes; -1 leaves a dimension as it is. Batches are those of either
    operand.
    """
    if isinstance(size, Ref):
        node = definition.node(size.name)
        return node is not None and node.op == "size"
    first, second = (_declared_shape(definition, x) for x in matmul.arguments[:2])
    fixed = {ROWS: first, COLS: second}.get(axis, (*first, *second))
    return size == -1 or size in fixed


def _declared_shape(definition: Definition, operand: Value) -> tuple[Value, ...]:
    """The sizes of an operand, in any order, as its input is declared."""
    node = definition.node(operand.name) if isinstance(operand, Ref) else None
    while node is not None and node.op in ("permute", "stride_order"):
        inner = node.operands[0]
        node = definition.node(inner.name) if isinstance(inner, Ref) else None
    shape = node.get("shape") if node is not None else None
    return shape if isinstance(shape, tuple) else ()


def exact(x: object) -> bool:
    """Whether fp32 holds a number exactly, so that its type does not matter."""
    return isinstance(x, float) and struct.unpack("f", struct.pack("f", x))[0] == x
