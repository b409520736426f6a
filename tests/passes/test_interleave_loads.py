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
    on %warp 0 {
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
      on %warp 0 {
        if k + 2 < top {
          let row2: i32 = (k + 2) // 2 * 64
          let col2: i32 = (k + 2) % 2 * 64 + row2
          elect {
            produce ring, k + 2
            load.tile A_s[0, 0, 0], A[row2, col2]
          }
        }
      }
      consume ring, k
      fence.proxy.async
    }
  }
}
"""
NEST = """
let parts: i32 = max(n, 1)
section load groups 1 {
  for t in 0 .. n {
    let row: i32 = t * 64
    for j in 0 .. parts {
      produce ring, t * parts + j
      load.tile A_s[0, 0, 0], A[row, j]
    }
  }
}
section compute groups 2 as wg {
  for k in 0 .. n * parts {
    consume ring, k
    fence.proxy.async
  }
}
"""
CARRIED = """
let parts: i32 = max(n, 1)
roles {
  role compute warps 0 .. 8 as wg {
    for first in 0 .. min(2, n * parts) carry (t_ahead: i32 = 0 -> t_ahead2, \
j_ahead: i32 = 0 -> j_ahead2) {
      on %warp 0 {
        let row: i32 = t_ahead * 64
        elect {
          produce ring, first
          load.tile A_s[0, 0, 0], A[row, j_ahead]
        }
      }
      let next: i32 = j_ahead + 1
      let wraps: pred = parts <= next
      yield t_ahead + select(wraps, 1, 0), select(wraps, 0, next)
    }
    for k in 0 .. n * parts carry (t_ahead3: i32 = t_ahead2 -> t_ahead4, \
j_ahead3: i32 = j_ahead2 -> j_ahead4) {
      on %warp 0 {
        if t_ahead3 < n {
          let row2: i32 = t_ahead3 * 64
          elect {
            produce ring, k + 2
            load.tile A_s[0, 0, 0], A[row2, j_ahead3]
          }
        }
      }
      consume ring, k
      let next2: i32 = j_ahead3 + 1
      let wraps2: pred = parts <= next2
      fence.proxy.async
      yield t_ahead3 + select(wraps2, 1, 0), select(wraps2, 0, next2)
    }
  }
}
"""


def test_a_nest_is_carried_as_a_counter_with_a_digit_for_each_loop() -> None:
    assert lowered(interleave_loads, HEAD + NEST, threads=256) == full(HEAD + CARRIED, threads=256)


def test_one_role_that_loads_ahead_of_itself() -> None:
    assert lowered(interleave_loads, HEAD + BEFORE, threads=256) == full(HEAD + AFTER, threads=256)


def test_each_ring_is_loaded_ahead_by_its_own_number_of_steps() -> None:
    """A second load section and ring: in front of the loops, and of each step that is consumed."""
    more = """
section load groups 1 {
  for j in 0 .. top {
    produce late, j
    load.tile B_s[0, 0, 0], A[j, 0]
  }
}
section compute"""
    head = HEAD + "shared B_s: bf16[1][64x64]\nring late(B_s) stages 3 prefetch 1\n"
    before = BEFORE.replace("section compute", more).replace(
        "  }\n}\nsection load", "}}section load"
    )
    before = before.replace("    fence", "    consume late, k\n    fence")
    lines = [s.strip() for s in lowered(interleave_loads, head + before, threads=256).splitlines()]
    assert lines.index("for m in 0 .. min(2, top) {") < lines.index("for j in 0 .. min(1, top) {")
    at = lines.index("consume ring, k")
    assert lines[at + 1 : at + 6] == [
        "on %warp 0 {", "if k + 1 < top {", "elect {", "produce late, k + 1",
        "load.tile B_s[0, 0, 0], A[k + 1, 0]",
    ]  # fmt: skip
    assert lines.count("on %warp 0 {") == 3


def test_a_warp_specialized_kernel_is_left_alone() -> None:
    assert unchanged(interleave_loads, HEAD.replace(" prefetch 2", "") + AFTER)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (HEAD + AFTER, "sections are []"),
        (HEAD + "section load groups 1 { }", "sections are ['load']"),
        (HEAD + BEFORE.replace("  for m in", "  fence.proxy.async\n  for m in"),
         "a load nest's trips are not steps of one ring"),
        (HEAD + BEFORE.replace("  for m in 0", "  for m in 1"),
         "the load section is not one nest of loops that count from 0"),
        (HEAD + BEFORE.replace("section compute", "section other groups 1 { cta.sync }\n"
                               "section compute"), "sections are ['compute', 'load', 'other']"),
        (HEAD + BEFORE.replace("    load", "    produce ring, m\n    load"),
         "a load nest's trips are not steps of one ring"),
        (HEAD + NEST.replace("0 .. parts {", "0 .. t {").replace("t * parts + j", "t * t + j"),
         "loop j ends at t, known only inside"),
        (HEAD + NEST.replace("ring, t * parts + j", "ring, t + j"),
         "ring has prefetch 2, its nest's trip is t + j, not t * parts + j"),
        (HEAD + NEST.replace("    consume ring, k", "    if 0 < k { consume ring, k }"),
         "steps of ring are consumed in a branch in a loop"),
        (HEAD + NEST.replace("  for k in", "  if 0 < n { consume ring, 0 }\n  for k in"),
         "steps of ring are consumed behind a branch that is one"),
        (HEAD + BEFORE.replace("produce ring, m", "produce ring, m + 1"),
         "ring has prefetch 2, its nest's trip is m + 1, not m"),
        (HEAD + "shared B_s: bf16[1][64x64]\nring late(B_s) stages 2\n"
         + BEFORE.replace("produce ring, m", "produce late, m"),
         "late has prefetch 0, its nest's trip is m, not m"),
    ],
)  # fmt: skip
def test_sections_of_another_form(text: str, why: str) -> None:
    with pytest.raises(InternalError) as error:
        lowered(interleave_loads, text)
    assert str(error.value) == (
        f"interleave_loads: {why}\nThis is a defect of wsched, please report it with the dump."
    )
