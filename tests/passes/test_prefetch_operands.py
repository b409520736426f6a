from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from passes.prefetch_operands import prefetch_operands
from tests.passes.texts import full, lowered, unchanged

BEFORE = """
param n: i32
param tiles: i32
tensormap A: bf16[512, 512] box 64x64 swizzle 128
tensormap B: bf16[512, 512] box 64x64 swizzle 128
tensormap C: bf16[512, 512] box 64x64 swizzle 128
shared A_s: bf16[2][64x64] swizzle 128
shared B_s: bf16[2][64x64] swizzle 128
shared C_s: bf16[2][64x64] swizzle 128
mbarrier full[2] arrivals 1
roles {
  role compute warps 0 .. 4 {
    zero: frag<f32, 64x64> = frag.fill 0.0
    acc: frag<f32, 64x64, async> = wgmma zero, A_s[0, 0, 0], B_s[0, 0, 0]
  }
  role load warps 4 .. 8 {
    setmaxnreg dec, 40
    on %warpgroup.warp 0 {
      for t in 0 .. tiles carry (at: i32 = 0 -> at_end) {
        let row: i32 = t * %nctaid.x + %ctaid.x
        let unused: i32 = row + 1
        for k in 0 .. n carry (stage: i32 = at -> stage_end) {
          elect {
            tma.load A_s[stage, 0, 0], A[row * 64, k * 64], bar=full[stage]
            tma.load B_s[stage, 0, 0], B[0, k * 64], bar=full[stage]
            tma.load C_s[stage, 0, 0], C[0, k * 64], bar=full[stage]
          }
          yield 1 - stage
        }
        yield stage_end
      }
    }
  }
}
"""
HINTS = """
    on %warpgroup.warp 0 {
      if 0 < tiles {
        let t2: i32 = 0
        let row2: i32 = t2 * %nctaid.x + %ctaid.x
        for k2 in 0 .. min(n, 2) {
          elect {
            tma.prefetch A[row2 * 64, k2 * 64]
            tma.prefetch B[0, k2 * 64]
          }
        }
      }
    }"""
PLACE = "    setmaxnreg dec, 40"


def test_the_first_steps_of_the_first_tile() -> None:
    """Of what wgmma reads, in front of the loads; nothing that only they need is reckoned."""
    after = BEFORE.replace(PLACE, PLACE + HINTS)
    assert lowered(prefetch_operands, BEFORE, prefetched_steps=2) == full(after)


def test_without_the_option_nothing_changes() -> None:
    assert unchanged(prefetch_operands, BEFORE)


def test_a_kernel_that_does_not_start_early() -> None:
    with pytest.raises(ScheduleError) as error:
        lowered(prefetch_operands, BEFORE, prefetched_steps=2, programmatic_dependent_launch=False)
    assert error.value.why == (
        "a kernel that starts when the grid in front has ended has nothing to wait for"
    )
    assert error.value.wrote == "prefetched_steps=2"


def test_boxes_that_memory_tells() -> None:
    """A tile that is read from shared memory is not known in front of the wait."""
    text = BEFORE.replace(
        "let row: i32 = t * %nctaid.x + %ctaid.x", "row: i32 = ld.word W[0, 0, 0]"
    )
    text = text.replace("shared A_s", "shared W: s32[1][1x1]\nshared A_s")
    with pytest.raises(UnsupportedError) as error:
        lowered(prefetch_operands, text, prefetched_steps=2)
    assert str(error.value).startswith(
        "prefetched_steps=2 of operands whose first boxes memory tells, or that TMA does not load "
        "is not supported; supported: prefetched_steps=0"
    )
