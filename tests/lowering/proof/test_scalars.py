"""Which walks of numbers stand for others, and which loops deal tiles out in turns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.expr import I32_MAX, Binary, Const, Expr, Var, maximum, select, substitute
from lowering.kernel.nodes import If, Let
from lowering.proof.bounds import Bounds
from lowering.proof.dealt import Dealt, dealt
from lowering.proof.linear import Facts
from lowering.proof.obligation import UnknownError
from lowering.proof.scalars import (
    Branch,
    Draw,
    Leave,
    Load,
    Loop,
    Name,
    Program,
    Read,
    Uses,
    covers,
    given,
    program,
)
from lowering.proof.steps import Scalar, Steps
from lowering.proof.trip_words import TripWords
from lowering.proof.wraps import _Walk

X, Y, N = Var("x"), Var("y"), Var("n")


def uses(*values: Expr) -> Uses:
    return Uses(frozenset(values), frozenset())


def loop(*body: object, stop: Expr = N) -> Loop:
    return Loop(X, Const(0), stop, Const(1), (), (), body, False)  # type: ignore[arg-type]


MORE, LEAVE = uses(X * 2), Leave(X < Y)
COVERED: list[tuple[Program, Program, bool]] = [
    ((uses(X * 2, X * 3),), (MORE,), True),
    ((MORE,), (uses(X * 2, X * 3),), False),
    ((uses(Y + 1), Name(Y, X), MORE), (MORE,), True),
    ((Name(Y, X), MORE), (Name(Y, X + 1), MORE), False),
    ((loop(MORE, Name(Y, X)),), (loop(Name(Y, X)),), True),
    ((loop(MORE),), (loop(MORE, stop=N * 2),), False),
    ((loop(LEAVE, MORE),), (loop(MORE),), False),  # what is known of x there is known to it alone
    ((loop(MORE, LEAVE),), (loop(MORE),), False),
    ((loop(LEAVE, MORE),), (loop(LEAVE, MORE),), True),
    ((Branch(X < Y, (MORE,), ()),), (MORE,), False),
    ((Branch(X < Y, (MORE,), ()),), (Branch(X < Y, (), (MORE,)),), False),
    ((Branch(X < Y, (MORE, Name(Y, X)), ()),), (Branch(X < Y, (MORE,), ()),), True),
]


@pytest.mark.parametrize(("a", "b", "wanted"), COVERED)
def test_who_stands_for_whom(a: Program, b: Program, wanted: bool) -> None:
    """Who uses as much, where no more is known."""
    assert covers(a, b) is wanted


BEFORE, NEXT, HERE, CTAS = Var("before"), Var("next"), Var("here"), Var("ctas")
LEFT, R, Q, REST, TURNS = Var("left"), Var("r"), Var("q"), Var("rest"), Var("turns")
WHOLE = select(Const(0) < REST, 1, 0)
LETS: dict[Var, Expr] = {
    LEFT: maximum(BEFORE + HERE - NEXT, 0),
    R: Const(I32_MAX) // maximum(CTAS, 1),
    Q: Binary("mulhi", LEFT, R),
    REST: LEFT - Q * CTAS,
    TURNS: Q + WHOLE + select(CTAS < REST, 1, 0),
}
DEALT = Dealt(NEXT, BEFORE, TURNS, N - 0, HERE, CTAS, Var("next ahead of before"),
              BEFORE + Var("next ahead of before"))  # fmt: skip

NOT: dict[str, dict[Var, Expr]] = {
    "a turn too few": {TURNS: Q + WHOLE + select(CTAS * 2 < REST, 1, 0)},
    "turns rounded down": {TURNS: Q + select(CTAS <= REST, 1, 0)},
    "a rest of something else": {REST: LEFT - Q * HERE},
    "tiles that are not counted": {LEFT: maximum(BEFORE + HERE - NEXT + 1, 0)},
    "fewer tiles than none": {LEFT: BEFORE + HERE - NEXT},
}


def found(lets: dict[Var, Expr]) -> list[Dealt]:
    carried = [
        Scalar(BEFORE, Const(0), Var("before_end"), BEFORE + HERE),
        Scalar(NEXT, N, Var("next_end"), NEXT + TURNS * CTAS),
    ]
    return list(dealt(carried, Bounds({}, lets, lambda e, found: None)))


def test_tiles_in_turns() -> None:
    """By a division, or by a product with a reciprocal."""
    assert found(LETS) == [DEALT]
    assert found({TURNS: Binary("ceildiv", LETS[LEFT], CTAS)}) == [DEALT]
    named = {v: substitute(e, {CTAS: Var("divisor")}) for v, e in LETS.items()}
    assert found({**named, Var("divisor"): CTAS}) == [DEALT]


@pytest.mark.parametrize("inside", ["n", "c"])
def test_turns_of_ctas_that_change(inside: str) -> None:
    """What a trip makes, or reads, is no number of CTAs."""
    lets = {v: substitute(e, {CTAS: Var("divisor")}) for v, e in LETS.items()}
    lets |= {Var("divisor"): Var("clusters"), Var("clusters"): Var("c") + 1}
    carried = [
        Scalar(BEFORE, Const(0), Var("before_end"), BEFORE + HERE),
        Scalar(NEXT, N, Var("next_end"), NEXT + TURNS * CTAS),
    ]
    bounds = Bounds({}, lets, lambda e, found: None)
    by = [replace(carried[1], following=NEXT + TURNS * Var("divisor"))]
    many = dealt([carried[0], *by], bounds, frozenset({inside}))
    assert [d.by for d in many] == [Var("divisor")] * (inside == "n")


def test_names_that_a_trip_gives_values() -> None:
    inner = Loop(X, Const(0), N, Const(1), (CARRYING,), (None,), (Read("v"),), True)
    outer = loop(Load("w", "words"), Draw("d", "inc", N), inner, Name(Var("a"), N), stop=N)
    assert given(outer) == {"x", "c", "result", "v", "w", "d"}


@pytest.mark.parametrize("fault", NOT)
def test_what_deals_nothing_out(fault: str) -> None:
    assert not found(LETS | NOT[fault])


T, C, RESULT = Var("t"), Var("c"), Var("result")
CARRYING = Scalar(C, Const(2**30), RESULT, Const(0))


def wrapping(steps: Program, **known: tuple[int, int]) -> bool:
    walk = _Walk(None, steps)  # type: ignore[arg-type]
    walk.begin(known, {}, None)
    return bool(walk.found)


def test_that_a_loop_was_not_left_says_nothing_behind_it() -> None:
    inside: Program = (loop(Leave(Const(5) <= T), stop=Const(9)),)
    assert wrapping((*inside, uses(T * 2)), t=(0, I32_MAX))
    assert not wrapping((loop(Leave(Const(5) <= T), uses(T * 2), stop=Const(9)),), t=(0, I32_MAX))


@pytest.mark.parametrize(
    ("cond", "wraps"),
    [(T < 8, "other"), (Const(8) <= T, "then")],
)
@pytest.mark.parametrize("side", ["then", "other"])
def test_each_branch_is_of_what_its_condition_leaves(cond: Expr, wraps: str, side: str) -> None:
    """Numbers below 16, 2^28 times those from 8 on: in one branch alone, and behind both."""
    bodies = {"then": (), "other": ()} | {side: (uses(T * 2**28),)}
    assert wrapping((Branch(cond, **bodies),), t=(0, 15)) is (side == wraps)
    both = {"then": (uses(T * 2),), "other": (uses(T * 3),)}
    assert wrapping((Branch(cond, **both), uses(T * 2**28)), t=(0, 15))


@pytest.mark.parametrize("stop", [8, 9])
def test_remainders_of_trips_in_between(stop: int) -> None:
    """Those of the first and the last trip may be none, one of the others is 7."""
    assert wrapping((loop(uses(X % 8 * 2**29), stop=Const(stop)),))
    assert not wrapping((loop(uses(X % 8 * 2**28), stop=Const(stop)),))


@pytest.mark.parametrize("now", [2**20, -(2**20)])
def test_remainders_of_words_in_between(now: int) -> None:
    """Of a word that is a whole multiple, as the least and the middle of a size may be, there are
    others; those of what is negative are negative.
    """
    walk = _Walk(None, (Read("y"), uses(Y % 8 * 2**29 - 2**30)))  # type: ignore[arg-type]
    walk.begin({}, {}, TripWords(None, now))
    low, high = (-(2**30), 2**31 + 2**29) if now > 0 else (-(2**30) * 9 // 2, -(2**30))
    assert walk.found[Y % 8 * 2**29 - 2**30] == (low, high)


@pytest.mark.parametrize(("trips", "leave"), [((0, 8), False), ((8, 8), True), ((8, 8), False)])
def test_a_result_is_of_no_trip_or_of_any(trips: tuple[int, int], leave: bool) -> None:
    body: Program = (Leave(Const(3) < T),) if leave else ()
    carries = Loop(X, Const(0), N, Const(1), (CARRYING,), (None,), body, False)
    unsure = leave or trips[0] < trips[1]
    assert wrapping((carries, uses(RESULT * 4)), n=trips, t=(0, 9)) is unsure


@pytest.mark.parametrize("inner", [(), (loop(Read("w"), stop=Const(1)),)])
def test_what_reads_several_words_is_unknown(inner: Program) -> None:
    one = Loop(X, Const(0), N, Const(1), (), (), (Read("v"),), True)
    _Walk(None, (one,))  # type: ignore[arg-type]
    several = replace(one, body=(*one.body, *inner, Read("u")))
    with pytest.raises(UnknownError, match="a trip reads several words of memory"):
        _Walk(None, (several,))  # type: ignore[arg-type]


def test_conditions_use_what_they_compare() -> None:
    """Of a way in which nothing is done as well."""
    body = (If(X * 2 < Y, ()), If(Y * 3 < X, (Let(N, X),)), If(Var("p"), ()))
    steps = Steps.of(body, (), Facts())
    first, second = (Uses(frozenset({c}), frozenset()) for c in (X * 2 < Y, Y * 3 < X))
    assert program(body[:1], steps) == (first,)
    assert program(body[1:], steps) == (second, Branch(Y * 3 < X, (Name(N, X),), ()))
    assert program(body[2:], steps) == ()
