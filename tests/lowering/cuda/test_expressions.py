from __future__ import annotations

import pytest

from lowering.cuda.expressions import expression, power_of_two
from lowering.ground.errors import InternalError
from lowering.ground.expr import (
    FALSE,
    TRUE,
    Binary,
    Const,
    Expr,
    ScalarType,
    Select,
    Var,
    ceildiv,
    evaluate,
    maximum,
    minimum,
)

A, B, C = Var("a"), Var("b"), Var("c")
WIDE, P = Var("w", ScalarType.I64), Var("p", ScalarType.PRED)


def show(e: Expr) -> str:
    return expression(e, str)


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (A + B * C, "a + b * c"),
        ((A + B) * C, "(a + b) * c"),
        (A - (B - C), "a - (b - c)"),
        (A // 128, "a >> 7"),
        ((A + 1) // 4, "(a + 1) >> 2"),
        (A // 128 * 64, "(a >> 7) * 64"),
        (A % 64, "a & 63"),
        (A % 64 + B, "(a & 63) + b"),
        (A // 96, "ptx::div(a, 96)"),
        (A % B, "ptx::mod(a, b)"),
        (ceildiv(A, 64), "ptx::ceildiv(a, 64)"),
        (Binary("mulhi", A, B), "ptx::mulhi(a, b)"),
        (minimum(A, 8), "min(a, 8)"),
        (minimum(A, WIDE), "min((long long)(a), w)"),
        (maximum(WIDE, 3), "max(w, 3ll)"),
        (A ^ 1, "a ^ 1"),
        ((A ^ 1).eq(B), "(a ^ 1) == b"),
        ((A < B).logical_and(B <= C), "a < b && b <= c"),
        (Binary("or", Binary("and", P, P), P), "p && p || p"),
        (Select(A < B, A, B), "(a < b ? a : b)"),
        (Select(P, A, WIDE), "(p ? (long long)(a) : w)"),
        (Const(5, ScalarType.I64), "5ll"),
        (TRUE, "true"),
        (FALSE, "false"),
        (A * Const(-1), "a * (-1)"),
    ],
)
def test_text(e: Expr, text: str) -> None:
    assert show(e) == text


def test_precedence_agrees_with_python() -> None:
    """Where C++ and Python share operators, the text evaluates to the tree's value."""
    env = {"a": 37, "b": 5, "c": 1}
    for e in (
        (A + 3) // 8 * 2 - (B - C),
        (A ^ B) % 16 + (A - B) * (C + 2),
        A // 2 % 8 + A % 8 // 2,
        (A * B) // 16 ^ (B + C),
    ):
        assert eval(show(e), {}, env) == evaluate(e, env)


def test_power_of_two() -> None:
    assert [power_of_two(n) for n in (1, 2, 64, 0, -4, 96)] == [0, 1, 6, None, None, None]


def test_unknown_node_is_rejected() -> None:
    with pytest.raises(InternalError, match=r"emit_cuda: no C\+\+ for the expression Expr\(\)"):
        show(Expr())
