"""Which of two numbers is the smaller, where both are made in the same way."""

from __future__ import annotations

from random import Random

import pytest

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    Var,
    as_expr,
    ceildiv,
    evaluate,
    maximum,
    minimum,
    substitute,
)
from lowering.ground.poly import poly
from lowering.proof.linear import Facts
from lowering.proof.ordered import ordered

PLACE, MORE = Var("place"), Var("more")
SIZES = [Var("n"), Var("m"), Var("k")]
FACTS = Facts(natural=frozenset(v.name for v in (PLACE, MORE, *SIZES)))


def before(place: Expr, levels: int, clamped: bool = True) -> Expr:
    """Steps in front of a place of loops in each other, some of whose places are no step."""
    if not levels:
        return minimum(place, SIZES[0])
    steps, places = SIZES[levels], maximum(ceildiv(SIZES[levels], 3) * 3, 1)
    outer, rest = before(place // places, levels - 1), minimum(place % places, steps)
    end = before(place // places + 1, levels - 1) * steps
    found = outer * steps + rest
    return minimum(minimum(found, end), Var("steps")) if clamped else found


@pytest.mark.parametrize("levels", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_steps_in_front_of_a_later_place(levels: int) -> None:
    """However many loops there are in each other; not the other way around."""
    here, there = (before(p, levels) for p in (PLACE, PLACE + MORE))
    assert ordered(here, there, FACTS)
    assert not ordered(there, here, FACTS)
    assert not ordered(here + 1, there, FACTS)
    assert not ordered(here, before(PLACE + MORE - 1, levels), FACTS)


def test_a_rest_that_begins_again() -> None:
    """Where tiles are over, the rest is in front of nothing: then a later place has less."""
    here, there = (before(p, 1, clamped=False) for p in (PLACE, PLACE + MORE))
    assert not ordered(here, there, FACTS)
    sizes = {"place": 2, "more": 1, "n": 0, "m": 3, "k": 0}
    assert evaluate(here, sizes) > evaluate(there, sizes)


def test_names_are_what_they_stand_for() -> None:
    facts = Facts(natural=FACTS.natural, defined={"twice": PLACE * 2, "all": before(PLACE, 1)})
    assert ordered(PLACE, Var("twice"), facts)
    assert ordered(Var("all"), before(Var("twice"), 1), facts)
    assert not ordered(Var("twice"), PLACE, facts)


def test_what_is_known_counts() -> None:
    facts = FACTS + (poly(SIZES[1]) - poly(SIZES[0]),)
    assert ordered(SIZES[0] * PLACE, SIZES[1] * PLACE + MORE, facts)
    assert not ordered(SIZES[0] * PLACE, SIZES[1] * PLACE + MORE, FACTS)
    assert not ordered(SIZES[0] * (PLACE - 1), SIZES[1] * (PLACE - 1), facts)


def drawn(draw: Random, depth: int) -> Expr:
    """Any number that is made of a place."""
    if not depth:
        return draw.choice([PLACE, PLACE, *SIZES, Const(draw.randrange(4))])
    a, b = drawn(draw, depth - 1), drawn(draw, draw.randrange(depth))
    match draw.randrange(8):
        case 0:
            return a + b
        case 1:
            return a * b
        case 2:
            return minimum(a, b)
        case 3:
            return maximum(a, b)
        case 4:
            return a - b
        case 5:
            return as_expr(a) // maximum(b, 1)
        case 6:
            return as_expr(a) % maximum(b, 1)
    return ceildiv(a, maximum(b, 1))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(10))
def test_what_is_ordered_is_so_in_numbers(seed: int) -> None:
    """Of numbers that are drawn, at places and sizes that are: nothing is said that is wrong."""
    draw, said = Random(seed), 0
    for _ in range(100):
        form = drawn(draw, draw.randrange(1, 4))
        here = form if draw.random() < 0.7 else drawn(draw, 2)
        there = substitute(form, {PLACE: PLACE + draw.choice([MORE, MORE, Const(1), MORE - 1])})
        if not isinstance(form, Binary) or not ordered(here, there, FACTS):
            continue
        said += 1
        for _ in range(40):
            sizes = {v.name: draw.choice([0, 1, 2, 3, 7]) for v in (PLACE, MORE, *SIZES)}
            assert evaluate(here, sizes) <= evaluate(there, sizes), f"{here} <= {there} at {sizes}"
    assert said > 10


def test_products_of_what_may_be_negative() -> None:
    """One factor that is natural does not make the other so, nor does the smaller of two."""
    facts = FACTS + (poly(SIZES[1]) - poly(SIZES[0]),)
    low, high = SIZES[0], SIZES[1]
    for sign in (MORE * (PLACE - 1), MORE + (PLACE - MORE * 2), minimum(MORE, PLACE - 1)):
        assert not ordered(sign * low, sign * high, facts)
        assert not ordered(low * sign, high * sign, facts)
    for sign in (MORE * (PLACE + 1), minimum(MORE, PLACE), PLACE % 3):
        assert ordered(sign * low, sign * high, facts)
