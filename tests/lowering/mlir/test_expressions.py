"""Scalar expressions as operations, executed and compared with their values."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from lowering.ground.errors import InternalError
from lowering.ground.expr import Binary, Expr, ScalarType, Select, Special, Var, evaluate, free_vars
from lowering.ground.scalar_ops import DIVISIONS
from lowering.mlir.expressions import expression
from lowering.mlir.ssa import I1, I32, I64, SCALARS, Value, Writer
from tests.lowering.ground.expressions import budget, environments, expressions
from tests.lowering.mlir.interpreter import run

A, B, WIDE = Var("a"), Var("b"), Var("w", ScalarType.I64)


def leaf(e: Expr) -> Value:
    assert isinstance(e, Var | Special)
    return Value(f"%{e.name}", SCALARS[e.type] if isinstance(e, Var) else I32)


def written(e: Expr) -> tuple[Value, list[str]]:
    """The value of an expression, and its operations."""
    out = Writer()
    value = expression(e, out, {}, leaf)
    return value, [text for text, _ in out.constants.values()] + out.lines


def computed(e: Expr, env: dict[str, int]) -> object:
    value, lines = written(e)
    given = {name if name[0] == "%" else f"%{name}": number for name, number in env.items()}
    return run(lines, given).values[value.name]


@budget(60)
@given(expressions(2), environments)
def test_operations_have_the_value(e: Expr, env: dict[str, int]) -> None:
    inside = [x for x in _inside(e) if isinstance(x, Binary)]
    assume(not any(x.op == "mulhi" for x in inside))  # of numbers of 31 bits: below
    try:
        expected = evaluate(e, env)
    except ZeroDivisionError:
        assume(False)
    divisions = [x for x in inside if x.op in DIVISIONS]
    assume(all(evaluate(x.lhs, env) >= 0 and evaluate(x.rhs, env) > 0 for x in divisions))
    assert computed(e, env) == expected


def _inside(e: Expr) -> list[Expr]:
    match e:
        case Binary(_, a, b):
            return [e, *_inside(a), *_inside(b)]
        case Select(c, a, b):
            return [e, *_inside(c), *_inside(a), *_inside(b)]
    return [e]


@pytest.mark.parametrize(
    ("e", "operation"),
    [
        (A // 8, "arith.shrui %a, %c3_i32 : i32"),
        (A % 8, "arith.andi %a, %c7_i32 : i32"),
        (A // 6, "arith.divui %a, %c6_i32 : i32"),
        (A % B, "arith.remui %a, %b : i32"),
        (A < B, "arith.cmpi slt, %a, %b : i32"),
        ((A < B).logical_and(B < A), "arith.andi %0, %1 : i1"),
        (A * WIDE, "arith.muli %0, %w : i64"),
    ],
)
def test_operations(e: Expr, operation: str) -> None:
    assert written(e)[1][-1].endswith(f" = {operation}")


def test_what_is_known_is_not_computed_again() -> None:
    _, lines = written((A * B) + (A * B) // 4)
    assert sum("muli" in line for line in lines) == 1


def test_high_bits_of_a_product() -> None:
    value = 0x7FFFFFFF
    assert computed(Binary("mulhi", A, B), {"a": value, "b": value}) == value * value >> 31


def test_types() -> None:
    kinds = [written(e)[0].type for e in (A + 1, A < 1, A + WIDE)]
    assert kinds == [I32, I1, I64]
    assert free_vars(A + WIDE) == {A, WIDE}


def test_an_unknown_node_is_refused() -> None:
    with pytest.raises(InternalError, match=r"emit_mlir: no MLIR for the expression Expr\(\)"):
        written(Expr())
