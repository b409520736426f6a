"""Scalars as closures, and where they refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.expr import Binary, Const, ScalarType, Select, Special, Var, evaluate
from lowering.ground.scalar_ops import OPS
from lowering.machine.errors import FaultError
from lowering.machine.scalars import Env, bind, compile_scalar

LEAVES = st.one_of(st.integers(0, 9).map(Const), st.sampled_from([Var("x"), Special("warp")]))
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(sorted(OPS)), inner, inner),
        st.builds(Select, inner, inner, inner),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.integers(0, 100))
def test_agrees_with_evaluate(e: Binary, x: int) -> None:
    env = {"x": x, "%warp": 3}
    try:
        value = compile_scalar(e)(Env(env))
    except FaultError:
        return
    assert value == evaluate(e, env)


@pytest.mark.parametrize(
    ("text", "e"),
    [
        ("x // 0 divides 5 by 0", Binary("//", Var("x"), Const(0))),
        ("(x - 9) % 4 divides -4 by 4", Binary("%", Binary("-", Var("x"), Const(9)), Const(4))),
        ("ceildiv(x, -1) divides 5 by -1", Binary("ceildiv", Var("x"), Const(-1))),
        ("mulhi(x, -1) multiplies 5 by -1", Binary("mulhi", Var("x"), Const(-1))),
        ("x << -1 shifts 5 by -1", Binary("<<", Var("x"), Const(-1))),
        ("x - 9 << 1 shifts -4 by 1", Binary("<<", Binary("-", Var("x"), Const(9)), Const(1))),
        ("scalar y has no value here", Var("y")),
        (
            "%lane differs between the threads of a warp; only elect gives it a value",
            Special("lane"),
        ),
    ],
)
def test_faults(text: str, e: Binary) -> None:
    with pytest.raises(FaultError) as error:
        compile_scalar(e)(Env(x=5))
    assert str(error.value) == text


def test_a_type_too_small() -> None:
    env = Env()
    bind(env, Var("x", ScalarType.I64), 1 << 40)
    with pytest.raises(FaultError) as error:
        bind(env, Var("x"), 1 << 31)
    assert str(error.value) == "x: i32 cannot hold 2147483648"
