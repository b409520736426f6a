"""How many steps a program takes, in closed form: held against a count."""

from __future__ import annotations

from itertools import product

import pytest

from lowering.ground.expr import ONE, ZERO, Expr, Var, as_expr, evaluate
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import For
from lowering.kernel.nodes import MBarrierRef, MBarrierWait
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.shape import Shape
from lowering.proof.state import Walked
from lowering.proof.total import taken, times

N, M, B, TRIP, INNER = (Var(name) for name in ("n", "m", "b", "%0", "%1"))
FACTS = Facts(natural=frozenset("nm"))
WAIT = "wait"


def loop(stop: Expr, *inner: object, start: Expr = ZERO, step: Expr = ONE) -> tuple[object, ...]:
    return ("loop", start, stop, step, (), inner)


def where(cond: Expr) -> tuple[object, ...]:
    return ("if", cond, (WAIT,), ())


def count(shape: Shape, env: dict[str, int], depth: int = 0) -> int:
    total = 0
    for part in shape:
        match part:
            case str():
                total += 1
            case ("if", Expr() as cond, tuple() as then, tuple() as other):
                total += count(then if evaluate(cond, env) else other, env, depth)
            case ("loop", Expr() as start, Expr() as stop, Expr() as step, (), tuple() as inner):
                for n in range(*(evaluate(e, env) for e in (start, stop, step))):
                    total += count(inner, env | {f"%{depth}": n}, depth + 1)
    return total


PROGRAMS: dict[str, tuple[Shape, bool]] = {
    "one": ((WAIT,), True),
    "two": ((WAIT, WAIT), True),
    "trips": ((loop(N, WAIT),), True),
    "trips of two": ((loop(N, WAIT, WAIT),), True),
    "trips from one on": ((loop(N, WAIT, start=ONE),), True),
    "trips behind a number": ((loop(B, WAIT),), True),
    "trips in steps": ((loop(N, WAIT, step=as_expr(2)),), False),
    "trips of trips": ((loop(N, loop(M, WAIT)),), True),
    "trips of fewer trips": ((loop(N, loop(TRIP, WAIT)),), False),
    "trips, and trips": ((loop(N, WAIT), loop(M, WAIT)), True),
    "trips of trips, and trips": ((loop(N, loop(M, WAIT), loop(as_expr(3), WAIT)),), True),
    "trips where": ((loop(N, where(TRIP < B)),), True),
    "trips ahead": ((loop(N, where(TRIP + 2 < B)),), True),
    "trips of trips where": ((loop(N, loop(M, where(TRIP * M + INNER < B))),), True),
    "trips of trips ahead": ((loop(N, loop(M, where(TRIP * M + INNER + 3 < N * M))),), True),
    "trips of trips of other places": ((loop(N, loop(M, where(TRIP * N + INNER < B))),), False),
    "trips of trips where the first is": ((loop(N, loop(M, where(TRIP < B))),), False),
    "ahead, then where": ((loop(M, WAIT), loop(N, where(TRIP + M < N))), True),
    "where, then all": ((loop(N, where(TRIP < B)), loop(M, WAIT)), False),
    "where, then where": ((loop(N, where(TRIP < B)), loop(M, where(TRIP < B))), False),
    "where, twice": ((loop(N, where(TRIP < B), WAIT),), False),
    "where on the left": ((loop(N, ("if", TRIP < B, (WAIT,), (WAIT,))),), False),
    "a condition in no loop": ((where(N < M),), True),
    "a break": ((loop(N, ("break", TRIP < B), WAIT),), False),
    "nothing": ((), False),
    "a carried bound": ((("loop", ZERO, Var("%0.0"), ONE, (), (WAIT,)),), False),
}  # fmt: skip
BARE = Agent("r", None, (0,), 0, ())


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_in_closed_form(name: str) -> None:
    shape, known = PROGRAMS[name]
    found = taken(BARE, "f", shape, Walked(), FACTS)
    assert (found is not None) is known
    for n, m, b in product(range(4), range(3), range(-1, 6)) if found is not None else ():
        env = {"n": n, "m": m, "b": b}
        assert found is not None and evaluate(found.expr(), env) == count(shape, env), env


def waits(var: str, *inner: For, array: str = "f") -> For:
    return For(Var(var), ZERO, N, (MBarrierWait(MBarrierRef(array, ZERO), ZERO), *inner))


def test_where_steps_may_be_left_out() -> None:
    """In the last run alone, and where it is begun no late one."""
    agent = Agent("r", None, (0,), 0, (waits("i"), waits("z", array="e"), waits("j", waits("k"))))
    shape: Shape = (loop(N, WAIT), loop(M, where(TRIP < B)))
    one, none = poly(ONE), Poly(())

    def found(way: Walked, given: Shape = shape) -> bool:
        return taken(agent, "f", given, way, FACTS) is not None

    assert found(Walked())
    assert not found(Walked(skips={("j", "f"): one})) and found(Walked(skips={("j", "e"): one}))
    for last in ("j", "k"):
        assert found(Walked(idle={(last, "f")})) and found(Walked(begins={(last, "f"): none}))
    assert not found(Walked(idle={("j", "f")}), (loop(N, WAIT), loop(M, WAIT)))
    for front in ("i", "z"):
        assert not found(Walked(idle={(front, "f")}))
        assert not found(Walked(begins={(front, "f"): none}))
        assert found(Walked(idle={(front, "e")})) and found(Walked(begins={(front, "e"): one}))
    assert not found(Walked(begins={("j", "f"): one}))
    sizes = (loop(N, WAIT), loop(as_expr(1) - M, WAIT))
    assert found(Walked(begins={("j", "f"): poly(M)}), sizes)  # no trip unless that is none
    assert not found(Walked(begins={("j", "f"): poly(N)}), sizes)


def test_how_often_a_part_is_come_to() -> None:
    inner: Shape = (WAIT,)
    assert times(inner, inner, FACTS) == poly(ONE)
    assert times((loop(N, WAIT),), inner, FACTS) == poly(N)
    assert times((loop(N, loop(M, WAIT)),), inner, FACTS) == poly(N * M)
    assert times((loop(N, loop(M, WAIT)),), (loop(M, WAIT),), FACTS) == poly(N)
    assert times((loop(N, loop(TRIP, WAIT)),), inner, FACTS) is None
    assert times((loop(N, WAIT, step=as_expr(2)),), inner, FACTS) is None
    assert times((loop(N, WAIT), WAIT), inner, FACTS) is None
    assert times((WAIT, WAIT), inner, FACTS) is times((), inner, FACTS) is None
