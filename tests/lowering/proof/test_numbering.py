"""Expressions of one value are known by one name, whatever names stand between."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lowering.ground.expr import (
    Const,
    Expr,
    ScalarType,
    Special,
    Var,
    as_expr,
    ceildiv,
    maximum,
    minimum,
    select,
)
from lowering.ground.poly import poly
from lowering.proof.numbering import Numbering

M, N, CTA = Var("M"), Var("N"), Special("ctaid.x")
TILES, SHARE, LESS = Var("tiles"), Var("share"), Var("less", ScalarType.PRED)
LETS: dict[Var, Expr] = {
    TILES: ceildiv(M, 64) * N,
    SHARE: minimum(TILES, CTA),
    LESS: SHARE < N,
    Var("four"): Const(4),
    Var("twice"): Var("four") * 2,
}


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        (TILES, N * ceildiv(M, 64), 0),
        (SHARE + 3, minimum(ceildiv(M, 64) * N, CTA), 3),
        (maximum(M + N, 1), maximum(N + M, 1), 0),
        (select(LESS, SHARE, N), select(minimum(TILES, CTA) < N, SHARE, N) + 1, -1),
        (Var("twice") * M, M * 8, 0),
        (M // Var("four"), M // 4, 0),
        (as_expr(17) % Var("four"), Const(1), 0),
        (select(Var("four") < 5, M, N), M, 0),
        (SHARE, TILES, None),
        (minimum(M, N), minimum(N, M), None),
        (M // 4, ceildiv(M, 4), None),
        (select(LESS, M, N), select(LESS, N, M), None),
    ],
    ids=str,
)
def test_how_far_values_are_apart(a: Expr, b: Expr, apart: int | None) -> None:
    numbering = Numbering(LETS)
    assert numbering.of(a).apart(numbering.of(b)) == apart
    assert numbering.of(b).apart(numbering.of(a)) == (None if apart is None else -apart)


def test_what_has_no_other_name_is_itself() -> None:
    numbering = Numbering({})
    assert numbering.of(M * 2 + CTA) == poly(M * 2 + CTA)
    assert numbering.of(minimum(M, N)) == poly(Var("#0"))


def test_names_that_double() -> None:
    """A name in which the one before is twice, and so on: that is not written out."""
    names = [Var(f"x{n}") for n in range(60)]
    lets = {b: minimum(a // 2, a % 3) for a, b in pairwise(names)}
    assert len(Numbering(lets).of(names[-1]).terms) == 1
