"""What follows from linear inequalities, and what does not."""

from __future__ import annotations

import pytest

from lowering.ground.expr import Expr, Special, Var, as_expr, ceildiv, maximum, minimum, select
from lowering.ground.poly import poly
from lowering.proof.linear import Facts

K, N, T = Var("K"), Var("N"), Var("T")
CTA, CTAS = Special("ctaid.x"), Special("nctaid.x")
SIZES = Facts(natural=frozenset({"K", "N"}), defined={"T": maximum(N - CTA, 0)})

ALWAYS = [
    (as_expr(0) <= ceildiv(K, 64), True),
    (ceildiv(K, 64) * 64 >= K, True),
    (ceildiv(K, 64) * 64 <= K + 63, True),
    (as_expr(0) < ceildiv(K, 64), None),
    (as_expr(0) <= T, True),
    (T <= N, True),
    (T < N, None),
    (CTA < CTAS, True),
    (minimum(K, 128) <= maximum(K, 5), True),
    (select(N <= K, N, K) <= minimum(N, K), True),
    (K % 8 < 8, True),
    (K % 8 >= 8, False),
    (ceildiv(maximum(N, 0), 2) <= ceildiv(maximum(N - 1, 0), 2) + 1, True),
    (ceildiv(maximum(N, 0), 2) <= ceildiv(maximum(N - 1, 0), 2), None),
]


@pytest.mark.parametrize(("cond", "wanted"), ALWAYS, ids=str)
def test_what_always_holds(cond: Expr, wanted: bool | None) -> None:
    """True and False for all sizes, None where it depends on them."""
    assert SIZES.decide(cond) is wanted


def test_what_holds_on_a_path() -> None:
    """Conditions on the way decide others, two ways that meet know what both did."""
    empty, one = (SIZES.assumed(K.eq(n), True) for n in (0, 1))
    assert empty.decide(as_expr(0) < K) is False
    assert one.decide(as_expr(0) < K) is True
    more = SIZES.assumed(as_expr(1) < K, True)
    assert more.common(one).decide(as_expr(0) < K) is True
    assert more.common(empty).decide(as_expr(0) < K) is None
    assert SIZES.assumed(K < 3, True).assumed(as_expr(2) < K, True).impossible
    assert not SIZES.assumed(K < 3, True).assumed(as_expr(1) < K, True).impossible


def test_a_name_is_what_it_stands_for() -> None:
    """Only where a question is asked in depth."""
    goal = poly(N) - poly(T)
    assert SIZES.follows(goal) and not SIZES.follows(goal, deep=False)
