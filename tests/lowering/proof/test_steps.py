"""Places: which step a stage and a parity belong to."""

from __future__ import annotations

import pytest

from lowering.ground.expr import ZERO, Expr, Var, as_expr, ceildiv, maximum, select
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import For
from lowering.kernel.text import parse_kernel
from lowering.kernel.visit import walk
from lowering.proof.linear import Facts
from lowering.proof.steps import Steps, congruent, put, trips

TEXT = """
kernel k threads 32 cluster 1 grid 1 {{
  param n: i32
  param skip: i32
  let skip_stage: i32 = skip % 5
  let skip_parity: i32 = skip // 5 % 2
  for t in 0 .. n carry (s: i32 = {init} -> s_end, p: i32 = 0 -> p_end) {{
    let next: i32 = s + {add}
    let wraps: pred = 5 <= next
    yield select(wraps, next - 5, next), {parity}
  }}
}}
"""
CASES = [
    ("0", "1", "p ^ select(wraps, 1, 0)", "1"),
    ("3", "4", "p ^ select(wraps, 1, 0)", "4"),
    ("0", "skip_stage", "p ^ skip_parity ^ select(wraps, 1, 0)", "skip"),
    ("0", "1", "p", None),
    ("0", "1", "p ^ select(wraps, 0, 1)", "-4"),
    ("0", "skip_stage", "p ^ select(wraps, 1, 0)", None),
    ("5", "1", "p ^ select(wraps, 1, 0)", None),
]


@pytest.mark.parametrize(("init", "add", "parity", "delta"), CASES)
def test_a_pair(init: str, add: str, parity: str, delta: str | None) -> None:
    """A step of one, of several, of a run-time number; and what is no step at all."""
    kernel = parse_kernel(TEXT.format(init=init, add=add, parity=parity))
    steps = Steps.of(kernel.body, (5,), Facts(natural=frozenset({"n", "skip"})))
    (loop,) = (s for s in walk(kernel.body) if isinstance(s, For))
    heads = steps.heads[loop.var.name]
    if delta is None:
        assert not heads
        return
    (head,) = heads
    wanted = poly(Var("skip")) if delta == "skip" else poly(Var("one") - Var("one") + int(delta))
    assert congruent(head.delta, wanted, 10)
    assert head.first.constant() == int(init)
    assert head.moved == poly(Var("n")) * head.delta


N, M = Var("n"), Var("m")
PLACES: list[tuple[Expr, Expr | None, int, Expr | None]] = [
    (N % 3, N // 3 % 2, 3, N),
    (N % 3, None, 3, N),
    ((N + 1) % 3, (N + 1) // 3 % 2, 3, N + 1),
    (N % 3, (N // 3 + 1) % 2, 3, None),
    (N % 3, N // 3 % 2 ^ 1, 3, N + 3),
    (as_expr(2) - N % 3, None, 3, 2 - N),
    (as_expr(2), as_expr(1), 3, as_expr(-1)),
    (as_expr(2), as_expr(0), 3, as_expr(2)),
    (as_expr(2), None, 3, as_expr(2)),
    (as_expr(3), None, 3, None),
    (as_expr(-1), None, 3, None),
    (as_expr(2), as_expr(2), 3, None),
    (as_expr(2), as_expr(-1), 3, None),
    (ZERO, N % 2, 1, N),
    (ZERO, N % 2 ^ 1, 1, N + 1),
    (N % 2, N // 2 % 2, 2, N),
    (select((N % 3).eq(2), 0, N % 3 + 1), None, 3, N + 1),
    (select((N % 3).eq(2), 0, N % 3 + 1), N // 3 % 2 ^ select((N % 3).eq(2), 1, 0), 3, N + 1),
    (select((N % 3).eq(1), 0, N % 3 + 1), None, 3, None),
    (select(N < 1, N % 3, 0), None, 3, None),
    (N % 3, M // 3 % 2, 3, None),
    ((N % 3 + M % 3) % 3, None, 3, N % 3 + M % 3),
    (select(N % 3 + M % 3 < 3, N % 3 + M % 3, N % 3 + M % 3 - 3), None, 3, N + M),
    (N % 4, N // 4 % 2, 3, None),
    (N, None, 3, None),
]


@pytest.mark.parametrize(("stage", "parity", "stages", "step"), PLACES, ids=str)
def test_which_step_a_stage_and_a_parity_belong_to(
    stage: Expr, parity: Expr | None, stages: int, step: Expr | None
) -> None:
    """Of a stage alone modulo the stages; of what is none in all cases, no step."""
    found = Steps.of((), (stages,), Facts()).place(stage, parity, stages)
    assert (found is None) is (step is None)
    if found is not None and step is not None:
        assert congruent(found, poly(step), stages if parity is None else 2 * stages)


def loops(text: str) -> tuple[Steps, list[For]]:
    """The places of a program, and its loops."""
    head = "kernel k threads 32 cluster 1 grid 1 {\nparam n: i32\nlet half: i32 = n // 2\n"
    body = parse_kernel(f"{head}{text}\n}}").body
    steps = Steps.of(body, (3,), Facts(natural=frozenset("n")))
    return steps, [s for s in walk(body) if isinstance(s, For)]


@pytest.mark.parametrize(
    ("span", "wanted"),
    [
        ("0 .. n", N),
        ("0 .. 7", as_expr(7)),
        ("2 .. 7", as_expr(5)),
        ("1 .. n", maximum(N - 1, 0)),
        ("0 .. n step 2", ceildiv(N, 2)),
        ("2 .. n step 3", ceildiv(N - 2, 3)),
        ("3 .. n step 3", maximum(ceildiv(N - 3, 3), 0)),
        ("0 .. half", N // 2),
        ("half .. n", N - N // 2),
        ("0 .. n step half", ceildiv(N, N // 2)),
    ],
)
def test_how_often_a_loop_runs(span: str, wanted: Expr) -> None:
    steps, (loop,) = loops(f"for i in {span} {{ }}")
    found = trips(loop, steps, Facts(natural=frozenset("n")))
    assert poly(found) == poly(wanted)


CARRY = "carry (s: i32 = 1 -> s_end, p: i32 = 0 -> p_end)"
YIELD = "yield select(s == 2, 0, s + 1), p ^ select(s == 2, 1, 0)"


@pytest.mark.parametrize(
    ("inner", "known"),
    [
        ("", True),
        ("break n < i", False),
        ("elect { break n < i }", False),
        ("if n < i { break n < 3 }", False),
        ("for j in 0 .. n { break n < j }", True),
        ("elect { for j in 0 .. n { break n < j } }", True),
    ],
)
def test_the_place_behind_a_loop(inner: str, known: bool) -> None:
    """Its trips further, if nothing ends it; it is found wherever the loop stands."""
    text = f"for i in 0 .. n step 2 {CARRY} {{\n{inner}\n{YIELD}\n}}"
    for around in (text, f"elect {{ {text} }}", f"for k in 0 .. 2 {{ {text} }}"):
        steps, found = loops(around)
        (loop,) = (s for s in found if s.carries)
        (head,) = steps.heads[loop.var.name]
        assert (head.moved == poly(ceildiv(N, 2))) is known
        assert (head.end == poly(ceildiv(N, 2) + 1)) is known
        assert (steps.kind("s", 3), steps.kind("p", 3)) == ("stage", "parity")


def test_polynomials_in_place_of_atoms() -> None:
    """But for those within other atoms."""
    values = {N: poly(M + 1)}
    assert put(poly(N * N + N * 2 + 3), values) == poly(M * M + M * 4 + 6)
    assert put(poly(N * M - N), values) == poly(M * M - 1)
    assert put(poly(M + N // 2), values) == poly(M + N // 2)
    assert put(Poly(()), values) == Poly(())
