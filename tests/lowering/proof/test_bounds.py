"""Ranges of what is selected, and what is told of numbers that 32 bits do not hold."""

from __future__ import annotations

from itertools import product

import pytest

from lowering.ground.expr import (
    I32_MAX,
    Binary,
    Const,
    Expr,
    Var,
    evaluate,
    maximum,
    select,
)
from lowering.proof.bounds import ANY, NEVER, Bounds, Range

N, FEW, IS_FEW = Var("n"), Var("few"), Var("is_few")
LETS: dict[Var, Expr] = {IS_FEW: N < 7}


@pytest.mark.parametrize(
    ("e", "wanted"),
    [
        (select(N < 7, N, 6), (5, 6)),
        (select(IS_FEW, N, 6), (5, 6)),
        (select(N < 3, 100, N), (5, 9)),
        (select(N < 10, N, 100), (5, 9)),
    ],
)
def test_what_is_selected(e: Expr, wanted: Range) -> None:
    """A condition narrows, also by its name; a way that is never taken adds nothing."""
    assert Bounds({"n": (5, 9)}, LETS, lambda e, found: None).of(e) == wanted


@pytest.mark.parametrize(
    ("begin", "by", "told"), [(ANY[0], 0, 0), (ANY[0], -1, 1), (I32_MAX, 0, 0), (I32_MAX, 1, 1)]
)
def test_the_first_number_that_is_too_much(begin: int, by: int, told: int) -> None:
    """The least and the largest number that 32 bits hold are no overflow."""
    found: list[Range] = []
    bounds = Bounds({"n": (begin, begin), "few": (by, by)}, {}, lambda e, r: found.append(r))
    assert bounds.of(Binary("+", N, FEW)) == (begin + by, begin + by)
    assert found == [(begin + by, begin + by)] * told


def test_a_condition_is_computed_too() -> None:
    """Of what is selected all is told that 32 bits do not hold."""
    found: list[Range] = []
    bounds = Bounds({"n": (5, I32_MAX)}, {}, lambda e, r: found.append(r))
    assert bounds.of(select((N + 1).eq(7), 1, 2)) == (1, 2)
    assert found == [(6, I32_MAX + 1)]


OPERATIONS = [
    "+",
    "-",
    "*",
    "mulhi",
    "//",
    "ceildiv",
    "%",
    "^",
    "<<",
    "min",
    "max",
    "<",
    "<=",
    "==",
]
SPANS = [(0, 0), (0, 3), (1, 4), (2, 7), (5, 6)]


@pytest.mark.parametrize("op", OPERATIONS)
def test_ranges_hold_all_results(op: str) -> None:
    """Of numbers that are not negative, and of differences: each result is in its range; of what
    rises or falls with its operands the ends are results.
    """
    x, y = Var("x"), Var("y")
    e = Binary(op, x, y)
    signed = op in ("+", "-", "*", "mulhi", "min", "max", "<", "<=", "==")
    spans = SPANS + ([(-3, 2), (-5, -4)] if signed else [])
    for (a, b), (c, d) in product(spans, repeat=2):
        if op in ("//", "ceildiv", "%") and not c:
            c, d = c + 1, d + 1
        low, high = Bounds({"x": (a, b), "y": (c, d)}, {}, lambda e, r: None).of(e)
        found = {
            int(evaluate(e, {"x": i, "y": j})) for i in range(a, b + 1) for j in range(c, d + 1)
        }
        assert low <= min(found) and max(found) <= high, (a, b, c, d)
        if op not in ("%", "^", "<", "<=", "=="):
            assert (low, high) == (min(found), max(found)), (a, b, c, d)


@pytest.mark.parametrize("op", ["<", "<="])
@pytest.mark.parametrize("truth", [True, False])
def test_ranges_where_a_comparison_holds(op: str, truth: bool) -> None:
    """Of what is compared, and of what is a number away from it: exact where something is left."""
    x, y = Var("x"), Var("y")
    cond = Binary(op, x, y)
    for (a, b), (c, d) in product([(0, 3), (1, 4), (2, 7), (5, 6), (-3, 2)], repeat=2):
        bounds = Bounds({"x": (a, b), "y": (c, d)}, {}, lambda e, r: None)
        held = [
            (i, j)
            for i in range(a, b + 1)
            for j in range(c, d + 1)
            if bool(evaluate(cond, {"x": i, "y": j})) is truth
        ]
        for e in (x, y, x + 2, y - 3, y - x, y - x + 2):
            low, high = bounds.where(cond, truth, e)
            if not held:
                assert (low, high) == NEVER
                continue
            found = [int(evaluate(e, {"x": i, "y": j})) for i, j in held]
            assert low <= min(found) and max(found) <= high
            if e not in (y - x, y - x + 2):
                assert (low, high) == (min(found), max(found)), (str(e), a, b, c, d)
            elif truth:
                assert low == max(c - b, int(op == "<")) + 2 * (e != y - x)


X, D, OTHER = Var("x"), Var("d"), Var("other")
Q, R, REST = Var("q"), Var("r"), Var("rest")
QUOTIENT: dict[Var, Expr] = {
    R: Const(I32_MAX) // maximum(D, 1),
    Q: Binary("mulhi", X, R),
    REST: X - Q * D,
}
MADE: list[tuple[Expr, tuple[int, int], Range]] = [
    (Q * D, (0, 100), (0, 100)),
    (Q * OTHER, (0, 100), (0, 330)),
    (REST, (0, 100), (0, 13)),
    (X - Q * OTHER, (0, 100), (-330, 100)),
    (Q + select(D <= REST, 1, 0), (0, 100), (0, 33)),
    (Q + select(OTHER <= REST, 1, 0), (0, 100), (0, 34)),
    (REST, (0, 5), (0, 5)),
    (Q * D, (-5, 100), (-14, 231)),
]


@pytest.mark.parametrize(("e", "span", "wanted"), MADE, ids=str)
def test_what_is_made_of_a_quotient_by_multiplication(
    e: Expr, span: tuple[int, int], wanted: Range
) -> None:
    """By 3 to 7: of that divisor alone it is no more than what is divided, if that is not negative;
    and a rest is less than two divisors.
    """
    names = {"x": span, "d": (3, 7), "other": (10, 10)}
    bounds = Bounds(names, QUOTIENT, lambda e, found: None)
    for var, value in QUOTIENT.items():
        names[var.name] = bounds.of(value)
    low, high = bounds.of(e)
    assert (low, high) == wanted
    for x, d in product(range(span[0], span[1] + 1), range(3, 8)):
        env = {"x": x, "d": d, "other": 10}
        for var, value in QUOTIENT.items():
            env[var.name] = int(evaluate(value, env))
        assert low <= int(evaluate(e, env)) <= high


def test_stages_and_parities() -> None:
    bounds = Bounds({"x": (3, 50)}, {}, lambda e, r: None)
    assert bounds.of(Binary("stage", X, Const(4))) == (0, 3)
    assert bounds.of(Binary("parity", X, Const(4))) == (0, 1)


def test_what_is_behind_others() -> None:
    """Both ways are taken where the name is in a sum, and neither otherwise."""
    names = {"x": (0, 100), "d": (3, 7), "n": (0, 500)}
    bounds = Bounds(names, {}, lambda e, r: None, behind={N: X + D})
    assert bounds.of(N - X) == (3, 7) and bounds.of(N + X) == (3, 207)
    assert bounds.of(X - D) == (-7, 97) and bounds.of(N) == (0, 500)
