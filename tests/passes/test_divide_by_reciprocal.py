from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lowering.ground.expr import Binary, Const, evaluate
from lowering.kernel.nodes import PrefetchTensorMap
from lowering.machine.scalars import Env, compile_scalar
from passes.divide_by_reciprocal import divide_by_reciprocal
from passes.options import LoweringOptions
from tests.lowering.ground.expressions import budget
from tests.passes.evaluator import execute
from tests.passes.texts import full, kernel, lowered, unchanged

HEAD = """
param tiles: i32
param n: i32
tensormap A: bf16[512, 512] box 64x64 swizzle 128
"""
BEFORE = """
for tile in 0 .. tiles {
  let row: i32 = (tile * 2 + 1) // n
  let col: i32 = (tile * 2 + 1) % n
  let part: i32 = row % (n * 3)
  if ceildiv(col, n) < part {
    prefetch.tensormap A
  }
}
"""
AFTER = """
let reciprocal: i32 = 2147483647 // max(n, 1)
let divisor: i32 = n * 3
let reciprocal2: i32 = 2147483647 // max(divisor, 1)
for tile in 0 .. tiles {
  let dividend: i32 = tile * 2 + 1
  let quotient: i32 = mulhi(dividend, reciprocal)
  let rest: i32 = dividend - quotient * n
  let row: i32 = quotient + select(n <= rest, 1, 0)
  let col: i32 = select(n <= rest, rest - n, rest)
  let quotient2: i32 = mulhi(row, reciprocal2)
  let rest2: i32 = row - quotient2 * divisor
  let part: i32 = select(divisor <= rest2, rest2 - divisor, rest2)
  let quotient3: i32 = mulhi(col, reciprocal)
  let rest3: i32 = col - quotient3 * n
  if quotient3 + select(0 < rest3, 1, 0) + select(n < rest3, 1, 0) < part {
    prefetch.tensormap A
  }
}
"""
LARGEST = 2**31 - 1
edges = st.sampled_from((1, 2, 3, 2**16 - 1, 2**16, 2**30, 2**30 + 1, LARGEST - 1, LARGEST))


def test_divisions_leave_the_loop() -> None:
    assert lowered(divide_by_reciprocal, HEAD + BEFORE) == full(HEAD + AFTER)


def test_what_varies_in_the_outer_loop_leaves_the_inner_one() -> None:
    before = """
    for i in 0 .. tiles {
      let d: i32 = i + 1
      let before: i32 = n // d
      for j in 0 .. n carry (x: i32 = 0 -> last) {
        yield (x + j) // d
      }
    }
    """
    after = """
    for i in 0 .. tiles {
      let d: i32 = i + 1
      let before: i32 = n // d
      let reciprocal: i32 = 2147483647 // max(d, 1)
      for j in 0 .. n carry (x: i32 = 0 -> last) {
        let dividend: i32 = x + j
        let quotient: i32 = mulhi(dividend, reciprocal)
        let rest: i32 = dividend - quotient * d
        yield quotient + select(d <= rest, 1, 0)
      }
    }
    """
    assert lowered(divide_by_reciprocal, HEAD + before).split() == full(HEAD + after).split()


@pytest.mark.parametrize(
    "body",
    [
        "let q: i32 = tiles // n",
        "for i in 0 .. tiles // n { let q: i32 = i // 3 + i % 4 }",
        "for i in 0 .. tiles { let q: i32 = n // (i + 1) }",
        "for i in 0 .. tiles { let q: i64 = (i + 0:i64) // n }",
    ],
    ids=["no_loop", "constant", "varying", "i64"],
)
def test_other_divisions_stay(body: str) -> None:
    assert unchanged(divide_by_reciprocal, HEAD + body)


@budget(300)
@given(st.integers(0, LARGEST) | edges, st.integers(1, LARGEST) | edges)
@example(LARGEST, 1)
@example(LARGEST, LARGEST)
@example(LARGEST - 1, LARGEST)
@example(0, LARGEST)
def test_quotient_and_rest_are_exact(x: int, d: int) -> None:
    """For every number of 31 bits; also a multiple of d, and the number before it."""
    new = divide_by_reciprocal(kernel(HEAD + DIVIDE), LoweringOptions())
    for y in {x, x // d * d, max(x // d * d - 1, 0)}:
        env = {"tiles": y, "n": d}
        (_, found), *_ = execute(new.body, env)
        assert (found["q"], found["r"]) == divmod(y, d)
        assert found["up"] == -(-y // d)
        assert all(0 <= value <= LARGEST for value in found.values()), found


DIVIDE = """
for i in 0 .. 1 {
  let q: i32 = tiles // n
  let r: i32 = tiles % n
  let up: i32 = ceildiv(tiles, n)
  prefetch.tensormap A
}
"""


def test_a_loop_without_trips_may_divide_by_zero() -> None:
    new = divide_by_reciprocal(kernel(HEAD + BEFORE), LoweringOptions())
    found = execute(new.body, {"tiles": 0, "n": 0})
    assert [s for s, _ in found if isinstance(s, PrefetchTensorMap)] == []


@given(st.integers(0, LARGEST), st.integers(0, LARGEST))
def test_mulhi_is_the_matmul_without_its_low_bits(a: int, b: int) -> None:
    e = Binary("mulhi", Const(a), Const(b))
    assert evaluate(e, {}) == compile_scalar(e)(Env()) == a * b // 2**31 <= LARGEST
