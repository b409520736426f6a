"""Scalar expressions as operations of ``arith``.

Values are ``i32``, ``i64`` and ``i1`` (pred). Divided values are not negative, so a division is an
unsigned one, by a power of two a shift or a mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lowering.ground.errors import InternalError
from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    ScalarType,
    Select,
    Special,
    Var,
    plain,
    type_of,
)
from lowering.mlir.ssa import I1, I32, I64, SCALARS, Value, Writer

__all__ = ["Known", "expression"]

_ARITH = {
    "+": "addi", "-": "subi", "*": "muli", "^": "xori", "<<": "shli", "//": "divui",
    "%": "remui", "min": "minsi", "max": "maxsi", "and": "andi", "or": "ori",
}  # fmt: skip
_COMPARE = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle"}

_MULHI_BITS = 31
"""What :data:`lowering.ground.scalar_ops.OPS` says that ``mulhi`` drops."""

Known = dict[Expr, Value]
"""Expressions whose values are there already."""


def expression(e: Expr, out: Writer, known: Known, leaf: Callable[[Expr], Value]) -> Value:
    """The value of an expression.

    Args:
        e: the expression.
        out: where operations go.
        known: what was computed before in this region or one around it; new values are added.
        leaf: gives the value of a Var or Special.

    Raises:
        InternalError: a node that is no expression.
    """
    return _Operations(out, known, leaf).value(e)


@dataclass(frozen=True, slots=True)
class _Operations:
    out: Writer
    known: Known
    leaf: Callable[[Expr], Value]

    def value(self, e: Expr) -> Value:
        """The value of an expression, computed once."""
        if e not in self.known:
            self.known[e] = self.made(e)
        return self.known[e]

    def made(self, e: Expr) -> Value:
        """The value of an expression, computed here."""
        match e:
            case Const(number, kind):
                return self.out.constant(number, SCALARS[kind])
            case Var() | Special():
                return self.leaf(e)
            case Select(c, a, b):
                condition, kind = self.value(c), type_of(e)
                text = f"arith.select {condition}, {self.widened(a, kind)}, {self.widened(b, kind)}"
                return self.out.op(f"{text} : {SCALARS[kind]}", SCALARS[kind])
            case Binary("stage" | "parity"):
                return self.value(plain(e))
            case Binary(op, a, b):
                return self.binary(op, a, b)
        raise InternalError("emit_mlir", f"no MLIR for the expression {e!r}")

    def widened(self, e: Expr, to: ScalarType) -> Value:
        """The value in a type that is at least as wide as its own."""
        if isinstance(e, Const):
            return self.out.constant(e.value, SCALARS[to])
        found = self.value(e)
        if found.type == I32 and to is ScalarType.I64:
            return self.out.op(f"arith.extsi {found} : i32 to i64", I64)
        return found

    def binary(self, op: str, a: Expr, b: Expr) -> Value:
        """The value of ``a op b``."""
        if op == "ceildiv":
            return self.value((a + (b - 1)) // b)
        kind, out = _operands(a, b), self.out
        text = SCALARS[kind]
        x, y = self.widened(a, kind), self.widened(b, kind)
        if op in _COMPARE:
            return out.op(f"arith.cmpi {_COMPARE[op]}, {x}, {y} : {text}", I1)
        if op == "mulhi":
            wide = [out.op(f"arith.extui {v} : i32 to i64", I64) for v in (x, y)]
            product = out.op(f"arith.muli {wide[0]}, {wide[1]} : i64", I64)
            high = out.op(f"arith.shrui {product}, {out.constant(_MULHI_BITS, I64)} : i64", I64)
            return out.op(f"arith.trunci {high} : i64 to i32", I32)
        if op in ("//", "%") and isinstance(b, Const) and b.value.bit_count() == 1:
            by = b.value.bit_length() - 1 if op == "//" else b.value - 1
            name = "shrui" if op == "//" else "andi"
            return out.op(f"arith.{name} {x}, {out.constant(by, text)} : {text}", text)
        return out.op(f"arith.{_ARITH[op]} {x}, {y} : {text}", text)


def _operands(a: Expr, b: Expr) -> ScalarType:
    """The type in which an operation is computed."""
    kinds = {type_of(a), type_of(b)}
    if kinds == {ScalarType.PRED}:
        return ScalarType.PRED
    return ScalarType.I64 if ScalarType.I64 in kinds else ScalarType.I32
