from __future__ import annotations

import pytest
from hypothesis import assume, given

from lowering.ground.expr import Expr, evaluate, type_of
from lowering.kernel.nodes import MBarrierWait
from lowering.kernel.text import parse_kernel
from passes.options import LoweringOptions
from passes.simplify import simplify, simplify_expr
from tests.lowering.ground.expressions import any_expression, budget, environments
from tests.passes.evaluator import execute
from tests.passes.texts import full, kernel, lowered, unchanged

HEAD = """
param n: i32
param t: i32
param wg: i32
tensormap A: bf16[512, 512] box 64x64 swizzle 128
shared A_s: bf16[4][64x64] swizzle 128
mbarrier bar[8] arrivals 1
"""


def check(before: str, after: str) -> None:
    assert lowered(simplify, HEAD + before) == full(HEAD + after)


def test_folded_and_propagated() -> None:
    check(
        """
let a: i32 = wg * 0 + n - n
let row: i32 = t // 4 * 4 + t % 4
tma.load A_s[a, 0, 0], A[row, 0]
""",
        "tma.load A_s[0, 0, 0], A[t, 0]",
    )


def test_unused_values_are_dropped_in_chains() -> None:
    check(
        """
let a: i32 = t // 3
let b: i32 = a + n % 5
f: frag<f32, 64x64> = frag.fill 0.0
g: frag<f32, 64x32> = frag.columns f, 0
h: frag<bf16, 64x32> = frag.cast g
cta.sync
""",
        "cta.sync",
    )


def test_branches_that_are_decided() -> None:
    check(
        """
if t - t < 1 {
  let a: i32 = 0
  mbarrier.wait bar[a], 0
} else {
  cluster.sync
}
if t < t {
  cluster.sync
} else {
  cta.sync
}
if n < 3 {
  let unused: i32 = n
}
""",
        "mbarrier.wait bar[0], 0\ncta.sync",
    )


def test_loops_that_never_run() -> None:
    check("for i in 2 .. 2 { cluster.sync }\nfor i2 in 2 .. 3 { cta.sync }", """
for i2 in 2 .. 3 {
  cta.sync
}
""")  # fmt: skip


def test_a_loop_that_carries_values_stays() -> None:
    text = """
for i in 0 .. 0 carry (s: i32 = n -> last) {
  yield s + 1
}
mbarrier.wait bar[last], 0
"""
    assert unchanged(simplify, HEAD + text)


def test_values_that_a_loop_yields() -> None:
    """The yields stand behind the body: they see its bindings."""
    check(
        """
for i in 0 .. n carry (s: i32 = 0 -> s_end, p: i32 = 1 -> p_end) {
  let next: i32 = s + 0
  let zero: i32 = t - t
  let other: i32 = i * 3
  yield next, zero + other
}
mbarrier.wait bar[s_end], p_end
""",
        """
for i in 0 .. n carry (s: i32 = 0 -> s_end, p: i32 = 1 -> p_end) {
  let other: i32 = i * 3
  yield s, other
}
mbarrier.wait bar[s_end], p_end
""",
    )


def test_inside_roles_and_elect() -> None:
    check(
        """
roles {
  role load warps 0 .. 4 {
    elect {
      let a: i32 = n + 0
      mbarrier.wait bar[a - n], 0
    }
  }
}
""",
        """
roles {
  role load warps 0 .. 4 {
    elect {
      mbarrier.wait bar[0], 0
    }
  }
}
""",
    )


def test_nothing_to_do() -> None:
    assert unchanged(simplify, HEAD + "let a: i32 = n // 3\nmbarrier.wait bar[a + a * t], a % 2")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t // n * n + t % n", "t"),
        ("t // n * n + wg % n", "t // n * n + wg % n"),
        ("t * n + n - t * n", "n"),
        ("(t + 1) * n - t * n", "n"),
        ("min(t + 1, 1 + t)", "t + 1"),
        ("max(n, t)", "max(n, t)"),
        ("select(t + 1 <= t, 3, wg)", "wg"),
        ("select(t + n == n + t, 3, wg)", "3"),
        ("select(n < t, n + 0, n)", "n"),
        ("n * (0 + 1) // 1", "n"),
        ("(t // n * n + t % n) // wg", "t // wg"),
        ("wg // (t // n * n + t % n)", "wg // t"),
        ("(t // n * n + t % n) // (wg // n * n + wg % n)", "t // wg"),
        ("select((t // n * n + t % n) < wg, n + 0, 0 + t)", "select(t < wg, n, t)"),
    ],
)
def test_expressions(before: str, after: str) -> None:
    check(f"mbarrier.wait bar[{before}], 0", f"mbarrier.wait bar[{after}], 0")


@pytest.mark.parametrize(
    "text", ["t + 2:i64 - 1", "min(t, 0:i64 + t)", "t // 2:i64 * 2:i64 + t % 2:i64"]
)
def test_what_would_become_narrower_stays(text: str) -> None:
    assert unchanged(simplify, HEAD + f"mbarrier.wait bar[{text}], 0")


@budget(80)
@given(any_expression, environments)
def test_value_and_type_stay(e: Expr, env: dict[str, int]) -> None:
    try:
        expected = evaluate(e, env)
    except ZeroDivisionError:
        assume(False)
    short = simplify_expr(e)
    assert evaluate(short, env) == expected
    assert type_of(short) is type_of(e)


def test_the_kernel_does_the_same() -> None:
    """Bindings, branches and carried values, executed before and after."""
    before = parse_kernel(
        full(
            HEAD
            + """
let a: i32 = t * 1
for i in 0 .. n carry (s: i32 = a -> s_end) {
  let b: i32 = s
  if b - s == 0 {
    let c: i32 = b + i - i
    mbarrier.wait bar[c], b % 2
  }
  let d: i32 = b
  let e: i32 = d + wg
  yield e
}
mbarrier.wait bar[s_end + a - t], 0
"""
        )
    )
    after = simplify(before, LoweringOptions())
    env = {"n": 4, "t": 2, "wg": 3}
    runs = [
        [
            (evaluate(s.bar.index, e), evaluate(s.parity, e))
            for s, e in execute(k.body, dict(env))
            if isinstance(s, MBarrierWait)
        ]
        for k in (before, after)
    ]
    assert runs[0] == runs[1] == [(2, 0), (5, 1), (8, 0), (11, 1), (14, 0)]
    assert simplify(after, LoweringOptions()) == after
    assert kernel(HEAD + "cta.sync")
