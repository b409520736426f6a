"""Digits that loops carry: what is said of a number, held against what the digits are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowering.ground.expr import Expr, Var, evaluate
from lowering.kernel.control import For, If, Let
from lowering.kernel.operands import Body
from lowering.kernel.text import parse_kernel
from lowering.proof.linear import Facts
from lowering.proof.odometer import Odometers
from lowering.proof.steps import Steps, scalars_of
from tests.conftest import Golden

KERNEL = """
kernel k threads 32 cluster 1 grid 1 {{
  param n: i32
  param t: i32
  param a: i32
  param b: i32
  let first: i32 = max(a, 1)
  let second: i32 = max(b, 1)
{body}
}}
"""
TWO = """
for {loop} carry (x: i32 = {x} -> x_end, y: i32 = {y} -> y_end) {{
  let next: i32 = y + 1
  let wraps: pred = first <= next
  yield {yields}
}}
"""
MORE = """
for j in 0 .. t carry (u: i32 = x_end -> u_end, v: i32 = y_end -> v_end) {{
  let after: i32 = v + 1
  let over: pred = {base} <= after
  yield select(over, u + 1, u), select(over, 0, after)
}}
"""
NESTED = """
for i in 0 .. n carry (x: i32 = {x} -> x_end, y: i32 = {y} -> y_end) {{
  for j in 0 .. {trips} carry (u: i32 = x -> u_end, v: i32 = y -> v_end) {{
    let next: i32 = v + 1
    let wraps: pred = first <= next
    yield select(wraps, u + 1, u), select(wraps, 0, next)
  }}
  yield {yields}
}}
"""
THREE = """
for i in 0 .. n carry (x: i32 = 0 -> x_end, y: i32 = 0 -> y_end, z: i32 = 0 -> z_end) {{
  let next: i32 = z + 1
  let wraps: pred = second <= next
  let more: i32 = {more}
  let over: pred = first <= more
  yield select(over, {tens}, x), select(over, 0, more), select(wraps, 0, next)
}}
"""
STEP = "select(wraps, x + 1, x), select(wraps, 0, next)"


def two(yields: str = STEP, x: str = "0", y: str = "0", loop: str = "i in 0 .. n") -> str:
    return TWO.format(yields=yields, x=x, y=y, loop=loop)


PROGRAMS = {
    "two digits": two(),
    "by what is added": two("x + select(wraps, 1, 0), select(wraps, 0, next)"),
    "in steps": two(loop="i in 0 .. n step 2"),
    "from one on": two(loop="i in 1 .. n"),
    "the first begins at one": two(x="1"),
    "the second begins at one": two(y="1"),
    "the first moves by two": two("select(wraps, x + 2, x), select(wraps, 0, next)"),
    "the first does not move": two("x, select(wraps, 0, next)"),
    "the second begins again at one": two("select(wraps, x + 1, x), select(wraps, 1, next)"),
    "the second moves by two": two("select(wraps, x + 1, x), select(wraps, 0, next + 1)"),
    "the second stays": two("select(wraps, x + 1, x), select(wraps, 0, y)"),
    "the other base": two().replace("first", "second"),
    "a base that may be none": two().replace("first", "a"),
    "a base that is a trip": two().replace("first", "(i + 1)"),
    "a digit without end": two("select(wraps, x + 1, x), next"),
    "turned": two("select(wraps, 0, next), select(wraps, x + 1, x)"),
    "a number that goes on": two() + MORE.format(base="first"),
    "one that goes on by another base": two() + MORE.format(base="second"),
    "one in a condition": "if n < t {\n" + two() + "\n}",
    "trips in trips": NESTED.format(x="0", y="0", trips="t", yields="u_end, v_end"),
    "trips of trips": NESTED.format(x="0", y="0", trips="i", yields="u_end, v_end"),
    "trips in trips, turned": NESTED.format(x="0", y="0", trips="t", yields="v_end, u_end"),
    "trips in trips, left": NESTED.format(x="0", y="0", trips="t", yields="x, y"),
    "trips in trips from one on": NESTED.format(x="1", y="0", trips="t", yields="u_end, v_end"),
    "a base in trips in trips": NESTED.format(
        x="0", y="0", trips="t", yields="u_end, v_end").replace("first", "i + 1"),
    "three digits": THREE.format(more="y + select(wraps, 1, 0)", tens="x + 1"),
    "three digits, by a choice": THREE.format(more="select(wraps, y + 1, y)", tens="x + 1"),
    "three digits, by two": THREE.format(more="y + select(wraps, 2, 0)", tens="x + 1"),
    "three digits, ten by two": THREE.format(more="y + select(wraps, 1, 0)", tens="x + 2"),
}  # fmt: skip


def values(body: Body, env: dict[str, int]) -> Iterator[dict[str, int]]:
    """What names are, at the head of each trip and behind each loop."""
    for stmt in body:
        if isinstance(stmt, Let):
            env[stmt.var.name] = evaluate(stmt.value, env)
        elif isinstance(stmt, If):
            if evaluate(stmt.cond, env):
                yield from values(stmt.then, env)
        elif isinstance(stmt, For):
            carried = [*scalars_of(stmt)]
            now = [evaluate(c.init, env) for c in carried]
            for n in range(*(evaluate(e, env) for e in (stmt.start, stmt.stop, stmt.step))):
                head = {c.var.name: x for c, x in zip(carried, now, strict=True)}
                trip = {**env, stmt.var.name: n, **head}
                yield dict(trip)
                yield from values(stmt.body, trip)
                now = [evaluate(c.following, trip) for c in carried]
            env |= {c.result.name: x for c, x in zip(carried, now, strict=True)}
            yield dict(env)


@pytest.mark.parametrize("half", ["first", "second"])
def test_digits(half: str, golden: Golden) -> None:
    """Of each the number is said that they are digits of, at small sizes it is that."""
    lines: list[str] = []
    for name in [*PROGRAMS][half == "second" :: 2]:
        kernel = parse_kernel(KERNEL.format(body=PROGRAMS[name]))
        lets = {s.var.name: s.value for s in kernel.body if isinstance(s, Let)}
        facts = Facts(natural=frozenset("ntab"), defined=lets)
        found = Odometers.of(kernel.body, Steps.of(kernel.body, (), facts))
        lines.append(name)
        for digits, number in found.known.items():
            bases = ", ".join(str(b.expr()) for b in number.bases)
            told = found.told(digits[0] < Var("n"))
            lines.append(f"  {', '.join(map(str, digits))}: {number.at.expr()} by {bases}; {told}")
            for sizes in ((5, 3, 2, 3), (7, 2, 3, 1), (4, 4, 0, 2), (0, 2, 2, 2)):
                known = dict(zip("ntab", sizes, strict=True))
                for env in values(kernel.body, known):
                    if {str(d) for d in digits} <= env.keys():
                        held(digits, number.at.expr(), [b.expr() for b in number.bases], env)
    assert "\n".join(lines) == golden


def held(digits: tuple[Expr, ...], at: Expr, bases: list[Expr], env: dict[str, int]) -> None:
    """The digits are those of the number, where its names are of the same trip."""
    total = env[str(digits[0])]
    for digit, base in zip(digits[1:], bases, strict=True):
        size = evaluate(base, env)
        assert 0 <= env[str(digit)] < size
        total = total * size + env[str(digit)]
    assert total == evaluate(at, env), (digits, env)


def test_what_is_no_condition_on_a_digit() -> None:
    kernel = parse_kernel(KERNEL.format(body=two()))
    facts = Facts(natural=frozenset("ntab"))
    found = Odometers.of(kernel.body, Steps.of(kernel.body, (), facts))
    x, y, n = Var("x"), Var("y"), Var("n")
    assert found.told(x < n) != (x < n)
    for cond in (y < n, x <= n, n < x, Var("z") < n):
        assert found.told(cond) == cond
