"""Scalar expressions: folding, text, evaluation, substitution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lowering.ground.expr import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Binary,
    Const,
    Expr,
    ScalarType,
    Select,
    Special,
    Var,
    as_expr,
    binary,
    ceildiv,
    children,
    evaluate,
    free_vars,
    maximum,
    minimum,
    select,
    substitute,
    type_of,
)
from lowering.kernel.nodes import Let
from lowering.kernel.text import parse_kernel
from tests.lowering.ground.expressions import (
    PARAMS,
    any_expression,
    budget,
    environments,
    expressions,
)

A, B, P = Var("a"), Var("b"), Var("p", ScalarType.PRED)
WIDE = Var("w", ScalarType.I64)


class Counted(Var):
    """A variable that counts how often it is asked for its hash."""

    asked = 0

    def __hash__(self) -> int:
        Counted.asked += 1
        return super().__hash__()


def value(e: Expr, env: Mapping[str, int]) -> int:
    """The value of ``e``; examples that divide by zero are dropped."""
    try:
        return evaluate(e, env)
    except ZeroDivisionError:
        assume(False)
        raise


def rebuilt(e: Expr) -> Expr:
    """``e`` built again with the operators that fold."""
    match e:
        case Binary(op, a, b):
            return binary(op, rebuilt(a), rebuilt(b))
        case Select(c, a, b):
            return select(rebuilt(c), rebuilt(a), rebuilt(b))
    return e


def parsed(text: str, kind: ScalarType) -> Expr:
    """``text`` read as the value of a binding in a kernel."""
    params = "".join(f"param {p.name}: {p.type.value}\n" for p in PARAMS)
    kernel = parse_kernel(
        f"kernel k threads 128 cluster 1 grid 1 {{ {params} let x: {kind.value} = {text} }}"
    )
    (let,) = kernel.body
    assert isinstance(let, Let)
    return let.value


def test_the_hash_of_a_tree_is_made_once() -> None:
    """Trees share what they are made of, so it would take twice as long for each level else."""
    leaf = Counted("a")
    trees = [Binary("*", leaf, B), Select(P, leaf, B)]
    for tree in trees:
        Counted.asked = 0
        assert len({hash(tree) for _ in range(3)}) == Counted.asked == 1
        assert hash(replace(tree)) == hash(tree)


@budget(60)
@given(any_expression)
def test_text_reads_back_as_the_same_tree(e: Expr) -> None:
    assert parsed(str(e), type_of(e)) == e


@budget(80)
@given(any_expression, environments)
def test_folding_keeps_value_and_type(e: Expr, env: dict[str, int]) -> None:
    expected = value(e, env)
    folded = rebuilt(e)
    assert evaluate(folded, env) == expected
    assert type_of(folded) == type_of(e)


@budget(60)
@given(any_expression, st.dictionaries(st.sampled_from((A, B)), expressions(2)), environments)
def test_substitution_evaluates_in_the_inner_environment(
    e: Expr, table: dict[Var, Expr], env: dict[str, int]
) -> None:
    inner = env | {v.name: value(new, env) for v, new in table.items()}
    expected = value(e, inner)
    assert evaluate(substitute(e, table), env) == expected


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (A - (B - 1), "a - (b - 1)"),
        (A - B - 1, "a - b - 1"),
        ((A + B) * 2 // 3 % 4, "(a + b) * 2 // 3 % 4"),
        (A * (B // 2), "a * (b // 2)"),
        (A ^ (B + 1), "a ^ b + 1"),
        ((A ^ B) + 1, "(a ^ b) + 1"),
        (A - -3, "a - -3"),
        (ceildiv(A, 64) * minimum(A, B), "ceildiv(a, 64) * min(a, b)"),
        (maximum(A, Const(5, ScalarType.I64)), "max(a, 5:i64)"),
        (A > B, "b < a"),
        (A >= B, "b <= a"),
        ((A < B).logical_and(A.eq(0)), "a < b and a == 0"),
        (Binary("and", Binary("or", P, P), P), "(p or p) and p"),
        (select(P, A + 1, Special("lane")), "select(p, a + 1, %lane)"),
        (Select(FALSE, ONE, ZERO), "select(false, 1, 0)"),
    ],
)
def test_text(e: Expr, text: str) -> None:
    assert str(e) == text
    assert parsed(text, type_of(e)) == e if "%lane" not in text else True


@pytest.mark.parametrize(
    ("e", "folded"),
    [
        (A + 0, A),
        (0 + A, A),
        (A - 0, A),
        (A * 1, A),
        (A * 0, ZERO),
        (A // 1, A),
        (ceildiv(A, 1), A),
        (A % 1, ZERO),
        (A ^ 0, A),
        (Const(7) // 2, Const(3)),
        (Const(-7) // 2, Const(-4)),
        (Const(-7) % 4, ONE),
        (ceildiv(7, 2), Const(4)),
        (minimum(3, 5), Const(3)),
        (as_expr(3) < 5, TRUE),
        (as_expr(True), TRUE),
        (P.logical_and(TRUE), P),
        (P.logical_and(FALSE), FALSE),
        (binary("or", FALSE, P), P),
        (binary("or", P, TRUE), TRUE),
        (select(TRUE, A, B), A),
        (select(FALSE, A, B), B),
        (select(P, A, A), A),
        (Const(1, ScalarType.I64) + 1, Const(2, ScalarType.I64)),
        (WIDE * 0, Const(0, ScalarType.I64)),
    ],
)
def test_folded(e: Expr, folded: Expr) -> None:
    assert e == folded


@pytest.mark.parametrize(
    "e",
    [
        Const(1) // 0,
        ceildiv(1, 0),
        Const(1) % 0,
        0 - A,
        Const(1) // A,
        A + Const(0, ScalarType.I64),  # folding would narrow the type
        A.logical_and(TRUE),  # an integer is not a predicate
    ],
)
def test_kept(e: Expr) -> None:
    assert isinstance(e, Binary)


def test_types() -> None:
    assert type_of(A + WIDE) is type_of(select(P, A, WIDE)) is ScalarType.I64
    assert type_of(A < WIDE) is type_of(P) is ScalarType.PRED
    assert type_of(Special("warp")) is type_of(P + A) is ScalarType.I32


def test_parts() -> None:
    e = select(A < B, A * 2, Special("warp"))
    assert children(e) == (A < B, A * 2, Special("warp"))
    assert free_vars(e) == {A, B}
    assert substitute(e, {A: ONE, B: Const(2)}) == Const(2)
    assert substitute(e, {WIDE: ONE}) is e


def test_evaluate_refuses_what_is_no_expression() -> None:
    with pytest.raises(TypeError, match=r"^not an expression: 'a'$"):
        evaluate("a", {})  # type: ignore[arg-type]


def test_python_values() -> None:
    """A bool is a predicate, an int a number, also where Python takes one for the other."""
    for value, found in (
        (True, TRUE),
        (False, FALSE),
        (1, ONE),
        (0, ZERO),
        (1 << 40, Const(1 << 40)),
    ):
        assert (as_expr(value), type_of(as_expr(value))) == (found, type_of(found))
