"""Ranges of what loops carry, held against what they come to; what 32 bits do not hold."""

from __future__ import annotations

from itertools import product

import pytest

from lowering.ground.expr import I32_MAX, Const, Expr, Var, evaluate
from lowering.kernel.control import For, If, Let
from lowering.kernel.operands import Body
from lowering.kernel.text import parse_kernel
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.obligation import UnknownError
from lowering.proof.scalars import program
from lowering.proof.steps import Steps, scalars_of
from lowering.proof.wraps import _trips, _Walk, _wrapped

KERNEL = """
kernel k threads 32 cluster 1 grid 1 {{
  param n: i32
  param m: i32
{body}
}}
"""
LOOP = """
for i in {start} .. {stop} step {step} carry (x: i32 = m -> x_end) {{
  yield {after}
}}
let z: i32 = x_end + 1
"""
NESTED = """
for i in 0 .. n carry (x: i32 = 0 -> x_end) {
  for j in 0 .. m carry (y: i32 = x -> y_end) {
    yield y + 2
  }
  yield y_end
}
let z: i32 = x_end + 1
"""
LEFT = """
for i in 0 .. n carry (x: i32 = 0 -> x_end) {
  break m <= i
  yield x + 3
}
let z: i32 = x_end + 1
"""
CASES = {
    "one more": (LOOP.format(start=0, stop="n", step=1, after="x + 1"), True),
    "from two on": (LOOP.format(start=2, stop="n", step=1, after="x + 5"), True),
    "in steps": (LOOP.format(start=0, stop="n", step=3, after="x + 4"), True),
    "the trip": (LOOP.format(start=0, stop="n", step=1, after="i * 2"), True),
    "the trip of steps": (LOOP.format(start=1, stop="n", step=2, after="i"), True),
    "as it is": (LOOP.format(start=0, stop="n", step=1, after="x"), True),
    "up to a number": (LOOP.format(start=0, stop="n", step=1, after="min(x + 1, 4)"), False),
    "no trip": (LOOP.format(start=0, stop="n - 9", step=1, after="x + 100"), True),
    "a loop in a loop": (NESTED, True),
    "left": (LEFT, False),
}


def end(body: Body, env: dict[str, int]) -> bool:
    """Run it; whether it leaves the loop that it is in."""
    for stmt in body:
        match stmt:
            case Let():
                env[stmt.var.name] = int(evaluate(stmt.value, env))
            case For():
                carried = [*scalars_of(stmt)]
                now = [int(evaluate(c.init, env)) for c in carried]
                for n in range(*(evaluate(e, env) for e in (stmt.start, stmt.stop, stmt.step))):
                    env |= {stmt.var.name: n}
                    env |= {c.var.name: x for c, x in zip(carried, now, strict=True)}
                    if end(stmt.body, env):
                        break
                    now = [int(evaluate(c.following, env)) for c in carried]
                env |= {c.result.name: x for c, x in zip(carried, now, strict=True)}
            case _:
                if evaluate(stmt.cond, env):  # type: ignore[attr-defined]
                    return True
    return False


def walk_of(body: str) -> tuple[Body, _Walk]:
    parsed = parse_kernel(KERNEL.format(body=body)).body
    agent = Agent("r", None, (0,), 0, parsed)
    return parsed, _Walk(agent, program(parsed, Steps.of(parsed, (), Facts())))


@pytest.mark.parametrize("name", CASES)
def test_what_loops_carry(name: str) -> None:
    """At given sizes: exact of what rises, or falls, with each trip; else all that it may be."""
    body, exact = CASES[name]
    parsed, walk = walk_of(body)
    for n, m in product(range(8), range(3)):
        env = {"n": n, "m": m}
        end(parsed, env)
        walk.begin({"n": (n, n), "m": (m, m)}, {}, None)
        low, high = walk.names["x_end"]
        assert low <= env["x_end"] <= high, (n, m)
        assert not exact or (low, high) == (env["x_end"],) * 2, (n, m, low, high)
        assert walk.names["z"] == (low + 1, high + 1) and not walk.found


@pytest.mark.parametrize("name", ["one more", "from two on", "a loop in a loop"])
def test_what_loops_carry_of_ranges_of_sizes(name: str) -> None:
    body, _ = CASES[name]
    parsed, walk = walk_of(body)
    for low, high in ((0, 0), (0, 3), (1, 5), (2, 6)):
        walk.begin({"n": (low, high), "m": (0, 2)}, {}, None)
        least, most = walk.names["x_end"]
        for n, m in product(range(low, high + 1), range(3)):
            env = {"n": n, "m": m}
            end(parsed, env)
            assert least <= env["x_end"] <= most


WRAPS = {
    "let z: i32 = n * 2": (I32_MAX // 2, "n * 2"),
    "let z: i32 = n + 5": (I32_MAX - 5, "n + 5"),
    "let z: i32 = 0 - n - 2": (I32_MAX - 1, "0 - n - 2"),
    "for i in 0 .. n step 7 { let z: i32 = i }": (I32_MAX - 6, "i + 7"),
    "for i in 0 .. n carry (x: i32 = 0 -> e) { yield x + 3 }": (I32_MAX // 3, "x + 3"),
    "for i in 0 .. n { let z: i32 = i * 4 }": (I32_MAX // 4 + 1, "i * 4"),
    "if 3 < n { let z: i32 = n + 5 }": (I32_MAX - 5, "n + 5"),
    "if n < 3 { let z: i32 = n + 2147483640 }": (I32_MAX, ""),
    "if n < 3 { let y: i32 = m } else { let z: i32 = n + 5 }": (I32_MAX - 5, "n + 5"),
    "for i in 0 .. n { break 9 <= i\nlet z: i32 = i * 100000000 }": (I32_MAX, ""),
    "for i in 0 .. n { break 99 <= i\nlet z: i32 = i * 100000000 }": (22, "i * 100000000"),
}


@pytest.mark.parametrize("body", WRAPS)
def test_the_largest_size_that_fits(body: str) -> None:
    """One more, and something wraps."""
    most, said = WRAPS[body]
    _, walk = walk_of(body)
    for n in {most, min(most + 1, I32_MAX)}:
        walk.begin({"n": (n, n), "m": (0, 0)}, {}, None)
        why = _wrapped([walk], {"n": (n, n), "m": (0, 0)}, None)
        assert bool(walk.found) is bool(why) is (n > most), (n, why)
        assert n <= most or f": {said} is in " in why


def test_what_falls_with_each_trip_is_not_proved() -> None:
    """How far is not known: it is said, and nothing follows."""
    _, walk = walk_of("for i in 0 .. n carry (x: i32 = 0 -> e) { yield x - 3 }")
    with pytest.raises(UnknownError, match="x may fall from trip to trip"):
        walk.begin({"n": (3, 3), "m": (0, 0)}, {}, None)


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_trips(step: int) -> None:
    for start, stop in product(range(-3, 6), repeat=2):
        assert _trips(start, stop, step) == len(range(start, stop, step))


def test_conditions_say_nothing_behind_them() -> None:
    """What is known of a name in a way is not known behind it."""
    body = "if n < 3 { let y: i32 = n + 1 }\nlet z: i32 = n + 1"
    parsed, walk = walk_of(body)
    assert isinstance(parsed[0], If)
    walk.begin({"n": (0, 9), "m": (0, 0)}, {}, None)
    assert walk.names["y"] == (1, 3) and walk.names["z"] == (1, 10)
    expr: Expr = Var("n") + Const(1)
    assert walk.bounds.of(expr) == (1, 10)
