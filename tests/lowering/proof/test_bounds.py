"""Ranges of what is selected, and what is told of numbers that 32 bits do not hold."""

from __future__ import annotations

import pytest

from lowering.ground.expr import I32_MAX, Binary, Expr, Var, select
from lowering.proof.bounds import ANY, Bounds, Range

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
