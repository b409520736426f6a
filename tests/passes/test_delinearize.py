from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.expr import evaluate
from lowering.kernel.nodes import MBarrierWait
from passes.delinearize import delinearize
from passes.options import LoweringOptions
from tests.kernel.expressions import budget
from tests.passes.evaluator import execute
from tests.passes.texts import full, kernel, lowered, unchanged

HEAD = """
param tiles: i32
param n: i32
tensormap A: bf16[512, 512] box 64x64 swizzle 128
shared A_s: bf16[4][64x64] swizzle 128
mbarrier full[4] arrivals 1
"""
BEFORE = """
for m in 0 .. tiles * n {
  let row: i32 = m // n * 128
  let kcol: i32 = m % n * 64
  let both: i32 = row + kcol
  tma.load A_s[m % 4, 0, 0], A[row, kcol]
  if 0 < m {
    mbarrier.wait full[(m - 1) % 4], select(m // n < 2, both, row)
  }
}
"""
AFTER = """
for m_o in 0 .. tiles {
  let row: i32 = m_o * 128
  for m_i in 0 .. n {
    let kcol: i32 = m_i * 64
    let both: i32 = row + kcol
    tma.load A_s[(m_o * n + m_i) % 4, 0, 0], A[row, kcol]
    if 0 < m_o * n + m_i {
      mbarrier.wait full[(m_o * n + m_i - 1) % 4], select(m_o < 2, both, row)
    }
  }
}
"""


def test_a_loop_over_tiles_and_k() -> None:
    """What depends on the tile alone is computed once per tile."""
    assert lowered(delinearize, HEAD + BEFORE) == full(HEAD + AFTER)


@budget(40)
@given(st.integers(0, 4), st.integers(0, 5))
def test_the_same_values_in_the_same_order(tiles: int, n: int) -> None:
    before = kernel(HEAD + BEFORE)
    after = delinearize(before, LoweringOptions())
    assert visits(after.body, tiles, n) == visits(before.body, tiles, n)


def visits(body: object, tiles: int, n: int, **more: int) -> list[tuple[int, ...]]:
    env = {"tiles": tiles, "n": n, **more}
    return [
        (evaluate(s.bar.index, e), evaluate(s.parity, e), e["row"], e["kcol"], e["both"])
        for s, e in execute(body, env)  # type: ignore[arg-type]
        if isinstance(s, MBarrierWait)
    ]


def test_a_binding_of_an_inner_loops_result_stays_behind_it() -> None:
    """Though it does not mention the k index."""
    before = """
for m in 0 .. tiles * n {
  for i in 0 .. 2 carry (s: i32 = 0 -> s_end) {
    yield s + i
  }
  let after: i32 = s_end + m // n
  mbarrier.wait full[after], 0
}
"""
    assert lowered(delinearize, HEAD + before) == full(
        HEAD
        + """
for m_o in 0 .. tiles {
  for m_i in 0 .. n {
    for i in 0 .. 2 carry (s: i32 = 0 -> s_end) {
      yield s + i
    }
    let after: i32 = s_end + m_o
    mbarrier.wait full[after], 0
  }
}
"""
    )


def test_what_does_not_change_in_a_loop_is_bound_before_it() -> None:
    """In any loop, and out of several at once; also what follows from such a binding."""
    before = """
if 0 < n {
  for m in 0 .. tiles {
    for i in 0 .. 2 carry (s: i32 = 0 -> s_end) {
      let row: i32 = n * 128
      let next: i32 = row + 1
      let later: i32 = m + next
      let sum: i32 = s + later
      yield sum
    }
  }
}
"""
    after = """
if 0 < n {
  let row: i32 = n * 128
  let next: i32 = row + 1
  for m in 0 .. tiles {
    let later: i32 = m + next
    for i in 0 .. 2 carry (s: i32 = 0 -> s_end) {
      let sum: i32 = s + later
      yield sum
    }
  }
}
"""
    assert lowered(delinearize, HEAD + before) == full(HEAD + after)


def test_loops_that_are_not_taken_apart_stay() -> None:
    for head in (
        "for m in 0 .. tiles * n",  # nobody divides by n
        "for m in 0 .. tiles",
        "for m in n .. tiles * n",
    ):
        assert unchanged(delinearize, HEAD + head + " { mbarrier.wait full[m % n % 4], 0 }")


def test_loops_of_another_form_stay() -> None:
    body = " { mbarrier.wait full[m // n], 0 }"
    assert unchanged(delinearize, HEAD + "for m in 0 .. tiles * n step 2" + body)
    assert unchanged(delinearize, HEAD + "for m in 0 .. 2 * 4 unroll" + body.replace("n", "4"))
    carried = "for m in 0 .. tiles * n carry (s: i32 = 0 -> t)"
    assert unchanged(
        delinearize, HEAD + carried + body.replace(" }", "\nyield s }").replace("{ ", "{\n")
    )
    assert not unchanged(delinearize, HEAD + "for m in 0 .. tiles * n" + body)


INTERVAL = HEAD.replace("param n: i32\n", "param n: i32\nparam a: i32\nparam b: i32\n")
BEFORE_INTERVAL = """
for m in a .. b {
  let row: i32 = m // n * 128
  let kcol: i32 = m % n * 64
  let both: i32 = row + kcol
  mbarrier.wait full[(m - a) % 4], select(m // n < 2, both, row)
}
"""
AFTER_INTERVAL = """
let m_first: i32 = a // max(n, 1)
for m_o in 0 .. ceildiv(b, max(n, 1)) - m_first carry (m_begin: i32 = a -> m_end) {
  let m_stop: i32 = min(b, (m_first + m_o + 1) * n)
  let row: i32 = (m_first + m_o) * 128
  for m in m_begin .. m_stop {
    let kcol: i32 = (m - (m_first + m_o) * n) * 64
    let both: i32 = row + kcol
    mbarrier.wait full[(m - a) % 4], select(m_first + m_o < 2, both, row)
  }
  yield m_stop
}
"""


def test_an_interval() -> None:
    """What a CTA of a stream-K kernel loads: from within a tile to within another."""
    assert lowered(delinearize, INTERVAL + BEFORE_INTERVAL) == full(INTERVAL + AFTER_INTERVAL)


@budget(80)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 5))
def test_an_interval_is_visited_in_order(a: int, length: int, n: int) -> None:
    """Also one that is empty, and with nothing to divide by."""
    b = a + length if n else a
    before = kernel(INTERVAL + BEFORE_INTERVAL)
    after = delinearize(before, LoweringOptions())
    found = visits(after.body, 0, n, a=a, b=b)
    assert found == visits(before.body, 0, n, a=a, b=b)
    assert len(found) == b - a


def test_only_one_division_by_a_value_of_the_run_makes_two_loops() -> None:
    """A constant is the number of stages, which ``step_stages`` sees to."""
    for start in ("0", "a"):
        head = INTERVAL + f"for m in {start} .. b "
        assert unchanged(delinearize, head + "{ mbarrier.wait full[m % 4], m // 4 % 2 }")
        assert unchanged(delinearize, head + "{ mbarrier.wait full[m // n], m // tiles }")
        assert not unchanged(delinearize, head + "{ mbarrier.wait full[m // n], m // 4 % 2 }")
