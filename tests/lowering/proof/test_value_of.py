"""Values of scalars: those that the machine's arithmetic gives, or none."""

from __future__ import annotations

import pytest

from lowering.ground.expr import (
    I32_MAX,
    Expr,
    Special,
    Var,
    as_expr,
    binary,
    ceildiv,
    parity_of,
    select,
    stage_of,
)
from lowering.proof.obligation import UnknownError
from lowering.proof.value_of import value_of, value_of_let, values_of

X, Y, D = Var("x"), Var("y"), Var("d")
ENV = {"x": 7, "y": 3, "below": -7, "%ctaid.x": 5}
BELOW = Var("below")

VALUES = [
    (as_expr(4), 4),
    (X, 7),
    (Special("ctaid.x"), 5),
    (X - Y, 4),
    (X * 10, 70),
    (X // Y, 2),
    (X // 2, 3),
    (X % 4, 3),
    (ceildiv(X, Y), 3),
    (ceildiv(X, 2), 4),
    (stage_of(X, 4), 3),
    (parity_of(X, 4), 1),
    (select(X < Y, X, Y), 3),
    (select(Y < X, X, Y), 7),
    (BELOW + 1, -6),
    (BELOW * Y, -21),
    (X - BELOW, 14),
]


@pytest.mark.parametrize(("e", "wanted"), VALUES, ids=str)
def test_values(e: Expr, wanted: int) -> None:
    """Of an expression, whatever of it is a number."""
    assert value_of(e)(ENV) == wanted


UNKNOWN = [
    (BELOW // Y, "below // y divides -7"),
    (BELOW % 2, "below % 2 divides -7"),
    (ceildiv(BELOW, 2), "ceildiv(below, 2) divides -7"),
    (ceildiv(BELOW, Y), "ceildiv(below, y) divides -7"),
]


@pytest.mark.parametrize(("e", "why"), UNKNOWN, ids=str)
def test_quotients_of_what_is_negative(e: Expr, why: str) -> None:
    """C++ rounds them the other way; nought divided is nought."""
    value = value_of(e)
    with pytest.raises(UnknownError) as raised:
        value(ENV)
    assert str(raised.value) == why
    assert value({**ENV, "below": 0}) == 0


def test_a_product_with_what_may_be_any_number() -> None:
    """Its upper half is a quotient if the number is a reciprocal, which only a definition says."""
    high = binary("mulhi", X, Y)
    with pytest.raises(UnknownError) as raised:
        value_of(high)
    assert str(raised.value) == f"the value of {high}: y is not known to be a reciprocal"
    for meant in (as_expr(I32_MAX - 1) // D, as_expr(I32_MAX) * D, D):
        with pytest.raises(UnknownError, match="not known to be a reciprocal"):
            value_of_let(high, {"y": meant})
    with pytest.raises(UnknownError, match="not known to be a reciprocal"):
        value_of_let(high, {})


def test_quotients_by_reciprocals() -> None:
    """One less of multiples, and of odd numbers; of what is less than the divisor nought."""
    found = value_of_let(binary("mulhi", X, Y), {"y": as_expr(I32_MAX) // D})
    of = [found({"x": x, "d": 4}) for x in range(13)]
    assert of == [0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 2, 1, 2]
    assert [found({"x": x, "d": 1}) for x in range(4)] == [0, 0, 1, 2]
    with pytest.raises(UnknownError, match=r"divides -1$"):
        found({"x": -1, "d": 4})


@pytest.mark.parametrize("count", range(4))
def test_several_values(count: int) -> None:
    """In the order in which they are asked for, in a list that is the caller's."""
    asked = [X, X - Y, as_expr(2)][:count]
    assert values_of(asked)(ENV) == [7, 4, 2][:count]
    known = values_of([as_expr(n) for n in range(count)])
    known(ENV).append(9)
    assert known(ENV) == [*range(count)]


def test_a_let_of_something_else() -> None:
    assert value_of_let(X + 1, {"x": as_expr(0)})(ENV) == 8
