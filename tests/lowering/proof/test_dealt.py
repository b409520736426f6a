"""Loops that deal tiles out in turns: which of the values that they carry do."""

from __future__ import annotations

import pytest

from lowering.ground.expr import ZERO, Binary, Expr, Special, Var, as_expr, ceildiv, maximum, select
from lowering.proof.bounds import Bounds
from lowering.proof.dealt import dealt
from lowering.proof.steps import Scalar

MINE, BEFORE, HERE, TURNS, BY, LEFT = map(Var, ("mine", "before", "here", "turns", "by", "left"))
Q, R, REST, FIRST = Var("q"), Var("r"), Var("rest"), Special("ctaid.x")
NEXT: Expr = MINE + TURNS * BY
ALL: Expr = BEFORE + HERE
ROUNDED = ceildiv(maximum(ALL - MINE, 0), BY)


def found(
    turns: Expr = ROUNDED,
    following: Expr = NEXT,
    counted: Expr = ALL,
    lets: dict[Var, Expr] | None = None,
    inside: frozenset[str] = frozenset(),
) -> list[str]:
    """What is dealt out, as text: ``next`` of ``more`` by ``by``, and how far it is ahead."""
    carried = [
        Scalar(MINE, FIRST, Var("mine_end"), following),
        Scalar(BEFORE, as_expr(2), Var("before_end"), counted),
        Scalar(Var("other"), ZERO, Var("other_end"), Var("other")),
    ]
    bounds = Bounds({}, {TURNS: turns, **(lets or {})}, lambda e, r: None)
    return [
        f"{d.next} of {d.more} behind {d.before} by {d.by}, {d.lead} ahead, {d.place}"
        for d in dealt(carried, bounds, inside)
    ]


DEALT = ["mine of here behind before by by, %ctaid.x - 2 ahead, before + mine ahead of before"]


def test_tiles_that_are_dealt_out() -> None:
    """However the quotient is rounded up, and whatever has a name."""
    assert found() == DEALT
    assert found(ceildiv(LEFT, BY), lets={LEFT: maximum(ALL - MINE, 0)}) == DEALT
    assert found(inside=frozenset({"mine", "here"})) == DEALT
    multiplied: dict[Var, Expr] = {
        R: as_expr(2**31 - 1) // maximum(BY, 1), LEFT: maximum(ALL - MINE, 0),
        Q: Binary("mulhi", LEFT, R), REST: LEFT - Q * BY,
    }  # fmt: skip
    up = Q + select(ZERO < REST, 1, 0) + select(BY < REST, 1, 0)
    assert found(up, lets=multiplied) == DEALT
    for wrong in (
        Q + select(ZERO < REST, 1, 0), Q + select(ZERO < REST, 1, 0) + select(BY <= REST, 1, 0),
        Q + select(ZERO <= REST, 1, 0) + select(BY < REST, 1, 0),
        Q + select(ZERO < REST, 1, 0) + select(BY < REST, 2, 0),
        Q + select(ZERO < LEFT, 1, 0) + select(BY < REST, 1, 0),
    ):  # fmt: skip
        assert found(wrong, lets=multiplied) == []


@pytest.mark.parametrize("turns", [
    maximum(ALL - MINE, 0) // BY,
    ceildiv(ALL - MINE, BY),
    ceildiv(maximum(ALL - MINE, 1), BY),
    ceildiv(maximum(ALL - MINE + 1, 0), BY),
    ceildiv(maximum(BEFORE - MINE, 0), BY),
    ceildiv(maximum(ALL - MINE, 0), BY + 1),
])  # fmt: skip
def test_other_numbers_of_turns(turns: Expr) -> None:
    assert found(turns) == []


def test_what_is_not_dealt_out() -> None:
    """Another number of tiles further on; by what each trip has of its own, or a name of that."""
    assert found(following=MINE + TURNS) == found(following=BEFORE + TURNS * BY) == []
    assert found(following=MINE + TURNS * BY + 1) == found(counted=BEFORE + HERE + 1) == []
    assert found(inside=frozenset({"by"})) == []
    assert found(lets={BY: Var("read") + 1}, inside=frozenset({"read"})) == []
    assert found(lets={BY: Var("read") + 1}) == DEALT
