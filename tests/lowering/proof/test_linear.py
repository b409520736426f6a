"""What follows from linear inequalities, and what does not."""

from __future__ import annotations

import pytest

from lowering.ground.expr import (
    Expr,
    Special,
    Var,
    as_expr,
    binary,
    ceildiv,
    maximum,
    minimum,
    select,
)
from lowering.ground.poly import poly
from lowering.proof.linear import Facts, _cases, natural, positive

K, N, T = Var("K"), Var("N"), Var("T")
CTA, CTAS = Special("ctaid.x"), Special("nctaid.x")
RANK, RANKS, THREAD = Special("ctaid.y"), Special("nctaid.y"), Special("tid.x")
X, Y = Var("x"), Var("y")
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
    (ceildiv(X, 64) * 64 <= X + 63, True),
    (ceildiv(X, 64) * 64 <= X + 62, None),
    (ceildiv(X, 64) * 64 >= X + 1, None),
    (X // 64 * 64 <= X, True),
    (X // 64 * 64 < X, None),
    (X // 64 * 64 + 63 >= X, True),
    (X // 64 * 64 + 62 >= X, None),
    (X % 8 <= 6, None),
    (X % 8 >= 0, True),
    (X % 8 >= 1, None),
    (X // Y * Y <= X, None),
    (X % Y >= 0, None),
    (X // CTAS * CTAS <= X, True),
    (X // (CTAS // 2) * (CTAS // 2) <= X, True),
    (X // THREAD * THREAD <= X, None),
    (as_expr(1) <= CTAS, True),
    (as_expr(2) <= CTAS, None),
    (as_expr(0) <= THREAD, True),
    (as_expr(1) <= THREAD, None),
    (CTA + 2 <= CTAS, None),
    (RANK < RANKS, True),
    (RANK < CTAS, None),
    (as_expr(0) <= X, None),
    (minimum(X, Y) <= X, True),
    (minimum(X, Y) <= Y, True),
    (minimum(X, Y) < X, None),
    (minimum(X, Y) >= X, None),
    (maximum(X, Y) >= Y, True),
    (maximum(X, Y) > Y, None),
    (minimum(X, Y) + maximum(X, Y) <= X + Y, True),
    (minimum(X, Y) + maximum(X, Y) >= X + Y, True),
    (maximum(X, Y) - minimum(X, Y) >= 1, None),
    (select(X < Y, Y - X, X - Y) >= 0, True),
    (select(X < Y, Y - X, X - Y) >= 1, None),
    (select(X.eq(Y), X - Y, as_expr(0)) <= 0, True),
    (select(X.eq(Y), as_expr(1), X - Y) <= -1, None),
    (as_expr(0) <= K * N, True),
    (as_expr(0) <= K * X, None),
    (K * 2 < N * 2 + 1, None),
    (binary("or", K < N, N <= K), True),
    ((K < N).logical_and(N <= K), False),
    ((K < N).logical_and(N <= K + 1), None),
    (K.eq(K + 1), False),
    (binary("!=", K, K + 1), True),
    (K.eq(N), None),
    (as_expr(1) < 2, True),
    (as_expr(2) < 2, False),
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


def test_facts_are_kept_once() -> None:
    """Also those that are added together with others; some are dropped with their names."""
    x, y = poly(X), poly(Y)
    facts = Facts(known=(x,)) + [x, y] + [y, x - y]
    assert facts.known == (x, y, x - y)
    assert facts.without(frozenset({"y"})).known == (x,)
    assert facts.without(frozenset({"z"})) == facts


def test_what_two_paths_know() -> None:
    """What one knows and the other follows, of either; each once."""
    y = poly(Y)
    one, other = Facts(known=(poly(X - 1), y)), Facts(known=(y, poly(X - 3)))
    assert one.common(other).known == (poly(X - 1), y)
    assert other.common(one).known == (y, poly(X - 1))
    assert one.common(Facts()).known == ()
    named = Facts(defined={"x": maximum(Y, 2)})
    assert one.common(named).known == ()  # what a name stands for is not looked at


def test_what_says_nothing_is_not_assumed() -> None:
    """One of two cases, or what is no comparison, is no fact."""
    facts = Facts()
    assert facts.assumed(X.eq(3), False) == facts
    assert facts.assumed(X.eq(3), True).known == (poly(X - 3), poly(3 - X))
    assert facts.assumed(Var("taken"), True) == facts
    assert not facts.impossible and not facts.assumed(X < 3, True).impossible
    both = facts.assumed((X < 3).logical_and(Y <= X), True)
    assert both.known == (poly(2 - X), poly(X - Y))
    neither = facts.assumed(binary("or", X < 3, Y <= X), False)
    assert neither.known == (poly(X - 3), poly(Y - X - 1))


def test_constants_and_equality() -> None:
    """A number is what it is; a difference is nought if it and its negative are not negative."""
    facts = Facts(known=(poly(X) - poly(Y),))
    assert [facts.follows(poly(as_expr(n))) for n in (-1, 0, 1)] == [False, True, True]
    assert facts.equal(poly(X) - poly(X)) and not facts.equal(poly(as_expr(1)))
    assert facts.follows(poly(X) - poly(Y)) and not facts.equal(poly(X) - poly(Y))
    assert (facts + [poly(Y) - poly(X)]).equal(poly(X) - poly(Y))


def test_facts_that_are_multiplied() -> None:
    """Only where products are asked about, and only by what is not negative."""
    facts = Facts(known=(poly(X) - poly(Y),), natural=frozenset({"K"}))
    goal = poly(X * K - Y * K)
    assert facts.follows(goal, products=True) and not facts.follows(goal)
    assert not facts.follows(poly(X * T - Y * T), products=True)
    assert not facts.follows(poly(X * K - Y * K - 1), products=True)
    even = facts + [poly(Y) - poly(X)]
    assert even.equal(goal, products=True) and not even.equal(goal)


def test_facts_reach_through_others() -> None:
    """A fact about what the question does not name counts if other facts lead there."""
    z, w = Var("z"), Var("w")
    facts = Facts(known=(poly(w - 5), poly(X - Y), poly(z - w), poly(Y - z)))
    assert facts.follows(poly(X - 5)) and not facts.follows(poly(X - 6))


def test_integers_between() -> None:
    """Rows are divided by what their numbers have in common, and rounded."""
    facts = Facts(known=(poly(X * 2 - 1), poly(Y * 6 - X * 3)))
    assert facts.follows(poly(X - 1)) and not facts.follows(poly(X - 2))
    assert facts.follows(poly(Y - 1))
    odd = Facts(known=(poly(X * 2 - Y * 2 - 1), poly(Y * 2 - X * 2 + 1)))
    assert odd.impossible
    thirds = Facts(known=(poly(X * 2 - Y * 2 - 3), poly(Y * 3 - X * 3 + 5)))
    assert thirds.impossible  # 3 / 2 <= x - y <= 5 / 3


SMALLER, LARGER = minimum(X, Y), maximum(X, Y)
AT_ONCE = [
    (X < SMALLER, True),
    (Y < SMALLER, True),
    (SMALLER < X, False),
    (LARGER < X, True),
    (LARGER < Y, True),
    (X < LARGER, False),
    (X % 8 < 0, True),
    (K < 0, True),
    ((SMALLER < X).logical_and(SMALLER < Y), False),  # only where it is taken apart
    (SMALLER + LARGER < X + Y, False),
    (N < T, False),  # only where a name is what it stands for
]


@pytest.mark.parametrize(("cond", "wanted"), AT_ONCE, ids=str)
def test_what_is_impossible_at_once(cond: Expr, wanted: bool) -> None:
    """Facts contradict one another by what atoms mean, and nothing is taken apart."""
    assert SIZES.assumed(cond, True).impossible is wanted


def test_a_quotient_of_a_rank() -> None:
    """With ``far``, what an atom means names others, which are looked at too."""
    assert Facts().decide(CTA // 2 * 2 < CTAS) is True
    assert Facts().decide(CTA // 2 * 2 + 1 < CTAS) is None
    assert Facts().decide((CTA // 2 + 1) // 2 * 4 <= CTAS + 1) is True


NATURAL = [
    (as_expr(0), True),
    (as_expr(-1), False),
    (X, False),
    (K, True),
    (T, True),
    (Var("below"), False),
    (CTA, True),
    (maximum(X, 0), True),
    (maximum(X, Y), False),
    (minimum(K, N), True),
    (minimum(K, X), False),
    (minimum(X, K), False),
    (K + N, True),
    (K - N, False),
    (X * K, False),
    (K % N, True),
    (ceildiv(K, N), True),
    (K // N, True),
    (binary("mulhi", K, N), True),
    (K ^ N, False),
    (select(X < Y, K, N), True),
    (select(X < Y, K, X), False),
    (select(X < Y, X, K), False),
]


@pytest.mark.parametrize(("e", "wanted"), NATURAL, ids=str)
def test_what_is_not_negative_by_its_form(e: Expr, wanted: bool) -> None:
    assert natural(e, NAMES) is wanted


NAMES = Facts(
    natural=frozenset({"K", "N", "below"}),
    defined={"T": maximum(N - CTA, 0), "below": X - 1, "count": maximum(X, 1)},
    positive=frozenset({Y}),
)
POSITIVE = [
    (as_expr(1), True),
    (as_expr(0), False),
    (K, False),
    (Y, True),
    (Var("count"), True),
    (T, False),
    (CTAS, True),
    (CTA, False),
    (CTAS // 2, True),
    (binary("//", CTAS, as_expr(-2)), False),
    (CTA // 2, False),
    (K // 2, False),
    (maximum(X, 1), True),
    (maximum(X, 0), False),
    (minimum(CTAS, 1), False),
]


@pytest.mark.parametrize(("e", "wanted"), POSITIVE, ids=str)
def test_divisors_that_are_positive(e: Expr, wanted: bool) -> None:
    assert positive(e, NAMES) is wanted


LESS, OTHER = X < 3, Y < 2
WAYS: list[tuple[Expr, bool, list[list[Expr]]]] = [
    (LESS, True, [[2 - X]]),
    (LESS, False, [[X - 3]]),
    (X <= 3, True, [[3 - X]]),
    (X <= 3, False, [[X - 4]]),
    (X.eq(3), True, [[X - 3, 3 - X]]),
    (X.eq(3), False, [[X - 4], [2 - X]]),
    (binary("!=", X, as_expr(3)), False, [[X - 3, 3 - X]]),
    (LESS.logical_and(OTHER), True, [[2 - X, 1 - Y]]),
    (LESS.logical_and(OTHER), False, [[X - 3], [Y - 2]]),
    (binary("or", LESS, OTHER), True, [[2 - X], [1 - Y]]),
    (binary("or", LESS, OTHER), False, [[X - 3, Y - 2]]),
    (as_expr(1), True, [[]]),
    (as_expr(1), False, []),
    (X, True, [[]]),
]


@pytest.mark.parametrize(("cond", "truth", "wanted"), WAYS, ids=str)
def test_ways_in_which_a_predicate_holds(cond: Expr, truth: bool, wanted: list[list[Expr]]) -> None:
    """Each has its facts; none if it never does, one without facts where nothing is known."""
    assert [list(way) for way in _cases(cond, truth)] == [[poly(e) for e in w] for w in wanted]


def test_one_of_two_cases_decides_nothing() -> None:
    facts = Facts(known=(poly(X - 5),))
    assert facts.decide(binary("or", X < 3, Y < 2)) is None
    assert facts.decide(binary("or", X < 3, X < 4)) is False
    assert facts.decide((X < 3).logical_and(Y < 2)) is False
