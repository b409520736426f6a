"""Polynomial normal form: equalities it proves, and that it never proves a wrong one."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from lowering.ground.expr import Const, Expr, Var, ceildiv, evaluate, minimum
from lowering.ground.poly import Poly, divided, linear_in, poly, same, split_multiple
from tests.lowering.ground.expressions import budget, environments, expressions

T, K, N, G, S = (Var(n) for n in "tkngs")
TILES = ceildiv(N, 128)


@budget(80)
@given(expressions(), environments)
def test_normal_form_has_the_same_value(e: Expr, env: dict[str, int]) -> None:
    try:
        expected = evaluate(e, env)
    except ZeroDivisionError:
        assume(False)
    assert evaluate(poly(e).expr(), env) == expected
    assert poly(poly(e).expr()) == poly(e)


@budget(60)
@given(expressions(2), expressions(2))
def test_arithmetic_is_that_of_the_expressions(a: Expr, b: Expr) -> None:
    assert poly(a + b) == poly(a) + poly(b) == poly(b) + poly(a)
    assert poly(a * b) == poly(a) * poly(b) == poly(b) * poly(a)
    assert poly(a - b) == -(poly(b) - poly(a))
    assert (poly(a) - poly(a)).constant() == 0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((T + 1) * N + K - (T * N + N), K),
        ((T * 2 + G) * TILES, T * TILES * 2 + TILES * G),
        ((T - K) * (T + K), T * T - K * K),
        (T - T, N * 0),
        (minimum(T, N) * 3, minimum(T, N) + 2 * minimum(T, N)),
    ],
)
def test_equal(a: Expr, b: Expr) -> None:
    assert same(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (T * N + K, K * N + T),
        (T // 2 * 2, T),
        (minimum(T, N), minimum(N, T)),  # equal, but atoms are compared as trees
        (T, T + 1),
    ],
)
def test_not_proved(a: Expr, b: Expr) -> None:
    assert not same(a, b)


def test_constant() -> None:
    assert poly(T + 3 - T).constant() == 3
    assert poly(T - T).constant() == 0
    assert poly(T).constant() is None
    assert poly(T + 3).constant() is None


def test_text_of_the_expression() -> None:
    assert str(poly(3 - K * 2 + T * N).expr()) == "3 + n * t - k * 2"
    assert str(poly(T - T).expr()) == "0"


def test_linear() -> None:
    found = linear_in((T * 2 + G) * TILES + K + N, (T, G, S))
    assert found is not None
    coefficients, rest = found
    assert coefficients == {T: poly(2 * TILES), G: poly(TILES), S: Poly(())}
    assert rest == poly(K + N)


@pytest.mark.parametrize("e", [T * T, T * K, T // 2, minimum(T, 4) + T, K * (N + T % 3)])
def test_not_linear(e: Expr) -> None:
    assert linear_in(e, (T, K)) is None


def test_split_multiple() -> None:
    assert split_multiple(N * 64 + 16, 64) == (N, Const(16))
    assert split_multiple(N * 128, 64) == (N * 2, Const(0))
    assert split_multiple(Const(200), 64) == (Const(3), Const(8))
    assert split_multiple(N, 64) == (N // 64, N % 64)
    assert divided(N * 64, 2) == N * 32


def test_a_normal_form_is_found_once() -> None:
    """It is kept with the tree, which is asked for it again and again."""
    e = Var("kept") * 3 + 4
    assert poly(e) is poly(e)
