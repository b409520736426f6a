from __future__ import annotations

import pytest

from lowering.ground.errors import InternalError
from passes.interleave_loads import interleave_loads
from tests.passes.texts import full, lowered, unchanged

HEAD = """
param n: i32
tensormap A: bf16[512, 512]
shared A_s: bf16[1][64x64]
ring ring(A_s) stages 4 in_flight 1 prefetch 2
"""
BEFORE = """
let top: i32 = n
section load groups 1 {
  for m in 0 .. top {
    let row: i32 = m // 2 * 64
    let col: i32 = m % 2 * 64 + row
    produce ring, m
    load.tile A_s[0, 0, 0], A[row, col]
  }
}
section compute groups 2 as wg {
  for k in 0 .. top {
    consume ring, k
    fence.proxy.async
  }
}
"""
AFTER = """
let top: i32 = n
roles {
  role compute warps 0 .. 8 as wg {
    if %warp == 0 {
      for m in 0 .. min(2, top) {
        let row: i32 = m // 2 * 64
        let col: i32 = m % 2 * 64 + row
        elect {
          produce ring, m
          load.tile A_s[0, 0, 0], A[row, col]
        }
      }
    }
    for k in 0 .. top {
      if %warp == 0 and k + 2 < top {
        let row2: i32 = (k + 2) // 2 * 64
        let col2: i32 = (k + 2) % 2 * 64 + row2
        elect {
          produce ring, k + 2
          load.tile A_s[0, 0, 0], A[row2, col2]
        }
      }
      consume ring, k
      fence.proxy.async
    }
  }
}
"""


def test_one_role_that_loads_ahead_of_itself() -> None:
    assert lowered(interleave_loads, HEAD + BEFORE, threads=256) == full(HEAD + AFTER, threads=256)


def test_a_warp_specialized_kernel_is_left_alone() -> None:
    assert unchanged(interleave_loads, HEAD.replace(" prefetch 2", "") + AFTER)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (HEAD + AFTER, "sections are []"),
        (HEAD + "section load groups 1 { }", "sections are ['load']"),
        (HEAD + BEFORE.replace("  for m in", "  fence.proxy.async\n  for m in"),
         "the load section is not one loop"),
    ],
)  # fmt: skip
def test_sections_of_another_form(text: str, why: str) -> None:
    with pytest.raises(InternalError) as error:
        lowered(interleave_loads, text)
    assert str(error.value) == (
        f"interleave_loads: {why}\nThis is a defect of wsched, please report it with the dump."
    )
