from __future__ import annotations

import pytest

from passes.reduce_across_warps import reduce_across_warps
from tests.passes.texts import full, lowered, unchanged

DECLARED = """
SHARED
roles {
  role compute warps 0 .. 8 as wg {
    x: frag<f32, 64x32> = frag.fill 1.0
"""
LOOP = """
    for c in 0 .. 4 unroll {
      none: frag<f32, 1x32> = frag.fill 0.0
      STMTS
    }
  }
  role load warps 8 .. 12 {
  }
}
"""
ROWS = "sums: frag<f32, 1x32> = frag.reduce_rows sum, none, x"


def test_two_buffers_in_turn() -> None:
    """Of an even number of trips: one barrier for each."""
    at = "sums_s[wg * 2 + c % 2, 0, 0]"
    after = f"""frag.reduce_to_shared sum, {at}, x
      bar.sync rows[wg]
      sums: frag<f32, 1x32> = frag.reduce_from_shared sum, none, {at}, 4"""
    before = DECLARED.replace("SHARED", "") + LOOP.replace("STMTS", ROWS)
    declared = "shared sums_s: f32[4][4x32]\nnamed_barrier rows[2] threads 128"
    wanted = DECLARED.replace("SHARED", declared) + LOOP.replace("STMTS", after)
    assert lowered(reduce_across_warps, before) == full(wanted)


@pytest.mark.parametrize("loop", ["0 .. 3 unroll", "0 .. 4"])
def test_one_buffer(loop: str) -> None:
    """Of any other number: the next store waits until all have read."""
    after = """bar.sync rows[wg]
      frag.reduce_to_shared sum, sums_s[wg, 0, 0], x, below=inside
      bar.sync rows[wg]
      sums: frag<f32, 1x32> = frag.reduce_from_shared sum, none, sums_s[wg, 0, 0], 4"""
    body = "    inside: frag<pred, 64x1> = frag.below 9\n" + LOOP.replace("0 .. 4 unroll", loop)
    masked = f"{ROWS}, below=inside"
    before = DECLARED.replace("SHARED", "") + body.replace("STMTS", masked)
    declared = "shared sums_s: f32[2][4x32]\nnamed_barrier rows[2] threads 128"
    wanted = DECLARED.replace("SHARED", declared) + body.replace("STMTS", after)
    assert lowered(reduce_across_warps, before) == full(wanted)


def test_without_reductions_nothing_changes() -> None:
    empty = LOOP.replace("STMTS", "")
    assert unchanged(reduce_across_warps, DECLARED.replace("SHARED", "") + empty)
