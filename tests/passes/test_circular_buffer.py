from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from passes.circular_buffer import circular_buffer
from tests.passes.texts import full, lowered, unchanged

HEAD = """
param n: i32
tensormap A: bf16[512, 512] box 64x64 swizzle 128
shared A_s: bf16[{stages}][64x64] swizzle 128
shared D_s: bf16[1][64x64] swizzle 128
ring ring(A_s) stages 4 in_flight 1
"""
BEFORE = """
roles {
  role compute warps 0 .. 4 {
    zero: frag<f32, 64x64> = frag.fill 0.0
    for k in 0 .. n carry (acc: frag<f32, 64x64> = zero -> sum) {
      consume ring, k
      next: frag<f32, 64x64> = mma.tile acc, A_s[0, 0, 0], A_s[0, 0, 16], 16, 0 < k
      yield next
    }
  }
  role load warps 4 .. 8 {
    for m in 0 .. n {
      elect {
        produce ring, m + 1
        tma.load A_s[0, 0, 0], A[m * 64, 0]
        tma.store A[0, 0], D_s[0, 0, 0]
      }
    }
  }
}
"""
AFTER = """
roles {
  role compute warps 0 .. 4 {
    zero: frag<f32, 64x64> = frag.fill 0.0
    for k in 0 .. n carry (acc: frag<f32, 64x64> = zero -> sum) {
      wait_full ring, k
      next: frag<f32, 64x64> = mma.tile acc, A_s[STAGE, 0, 0], A_s[STAGE, 0, 16], 16, 0 < k
      release ring, k
      yield next
    }
  }
  role load warps 4 .. 8 {
    for m in 0 .. n {
      elect {
        acquire ring, m + 1
        tma.load A_s[stage(m + 1, 4), 0, 0], A[m * 64, 0]
        tma.store A[0, 0], D_s[0, 0, 0]
      }
    }
  }
}
"""


AFTER = AFTER.replace("STAGE", "stage(k, 4)")


def test_steps_are_bracketed_and_staged() -> None:
    before = HEAD.format(stages=1) + BEFORE
    assert lowered(circular_buffer, before) == full(HEAD.format(stages=4) + AFTER)


def test_without_a_circular_buffer_nothing_changes() -> None:
    assert unchanged(
        circular_buffer,
        "tensormap A: bf16[64, 64]\nshared A_s: bf16[1][64x64]\ntma.load A_s[0, 0, 0], A[0, 0]",
    )


def refused(old: str, new: str) -> str:
    """Why the text with something else is refused."""
    with pytest.raises(ScheduleError) as error:
        lowered(circular_buffer, (HEAD.format(stages=1) + BEFORE).replace(old, new))
    return str(error.value)


def test_as_many_stages_as_groups_in_flight() -> None:
    assert refused("in_flight 1", "in_flight 4") == (
        "ScheduleError[stages]: circular_buffer(A_s, stages=4): a stage is released 4 steps late "
        "while that many wgmma groups stay in flight, so the load side would wait for ever\n"
        "  legal here: stages >= 5; wgmma_in_flight <= 3"
    )


def test_a_reader_that_loads_ahead_of_itself_needs_stages_for_both() -> None:
    assert refused("in_flight 1", "in_flight 1 prefetch 3") == (
        "ScheduleError[stages]: circular_buffer(A_s, stages=4, prefetch=3): who loads 3 steps "
        "ahead reads them, too, and releases a stage 1 steps late, so it would wait for itself\n"
        "  legal here: stages >= 5"
    )


def test_more_stages_than_any_memory_has() -> None:
    """At once, not when each of them has an mbarrier with statements of its own."""
    assert refused("stages 4", "stages 100000") == (
        "ScheduleError[smem]: circular_buffer(A_s, stages=100000): 100000 stages of 8 KiB, limit "
        "227 KiB for all buffers\n  legal here: stages <= 28, prefetch < stages"
    )


def test_two_circular_buffers() -> None:
    """Each has steps of its own; a step is released behind its last read, not at the end."""
    head = """
param n: i32
shared A_s: bf16[STAGES_A][64x64] swizzle 128
shared C_s: bf16[STAGES_C][64x64] swizzle 128
shared D_s: bf16[1][64x64] swizzle 128
ring ring(A_s) stages 4 in_flight 1
ring aux(C_s) stages 2
"""
    body = """
for c in 0 .. n {
  STEP
  r: frag<bf16, 64x64> = ldmatrix C_s[AT, 0, 0]
  RELEASE
  stmatrix D_s[0, 0, 0], r
}
"""
    before = head.replace("STAGES_A", "1").replace("STAGES_C", "1") + body.replace(
        "STEP", "consume aux, n + c"
    ).replace("AT", "0").replace("  RELEASE\n", "")
    after = head.replace("STAGES_A", "4").replace("STAGES_C", "2") + body.replace(
        "STEP", "wait_full aux, n + c"
    ).replace("AT", "stage(n + c, 2)").replace("RELEASE", "release aux, n + c")
    assert lowered(circular_buffer, before) == full(after)
