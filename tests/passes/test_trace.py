from __future__ import annotations

import pytest

from lowering.kernel.text import print_kernel
from passes.trace import trace
from tests.passes.texts import kernel, lowered

HEAD = """
param n: i32
param tiles: i32
tensormap D: bf16[n, n] box 64x64 swizzle 128
shared S: bf16[4][64x64] swizzle 128
mbarrier full[4] arrivals 1
mbarrier empty[4] arrivals 4
named_barrier order[2] id 1 threads 256
"""
MAIN = """
for k in 0 .. n tile t * 2 + wg carry (acc: frag<f32, 64x64, async> = before -> total_async) {
  mbarrier.wait full[0], 0
  wgmma.fence
  next: frag<f32, 64x64, async> = wgmma acc, S[0, 0, 0], S[0, 0, 0]
  wgmma.commit
  yield next
}
total: frag<f32, 64x64> = wgmma.wait total_async, 0
"""
COMPUTE = f"""
role compute warps 0 .. 8 as wg {{
  zero: frag<f32, 64x64> = frag.fill 0.0
  for t in 0 .. tiles carry (before: frag<f32, 64x64> = zero -> last) {{
    bar.sync order[wg]
    {MAIN}
    if 0 < n {{
      elect {{ mbarrier.arrive empty[0] }}
    }}
    if t + wg < tiles {{
      bar.arrive order[1 - wg]
    }}
    for c in 0 .. 2 unroll {{
      on %warpgroup.warp 0 {{
        elect {{ bulk.wait 0, read=true }}
      }}
      on %warpgroup.warp 0 {{
        elect {{ tma.store D[t, c * 64], S[0, 0, 0]  bulk.commit }}
      }}
    }}
    yield total
  }}
  on %warpgroup.warp 0 {{
    elect {{ bulk.wait 0, read=true }}
  }}
}}
"""
FILL = "mbarrier.expect_tx full[0], bytes=8192"
LOAD = f"""
role load warps 8 .. 12 {{
  for m_o in 0 .. tiles {{
    for m_i in 0 .. n {{
      elect {{ {FILL} }}
    }}
  }}
}}
"""
KERNEL = f"{HEAD} roles {{ {COMPUTE} {LOAD} }}"


def test_stamps_around_turns_main_loops_and_epilogues(golden: object) -> None:
    """Everything that a ping-pong kernel can have; the tile is the first step by the steps."""
    assert lowered(trace, KERNEL, trace_slots=8) == golden


def test_without_slots_nothing_is_stamped() -> None:
    """The main loop does not say any more which tile it is about."""
    untold = KERNEL.replace(" tile t * 2 + wg", "")
    assert lowered(trace, KERNEL) == print_kernel(kernel(untold)) != print_kernel(kernel(KERNEL))


def test_a_loop_that_is_about_no_tile_is_no_main_loop() -> None:
    untold = KERNEL.replace(" tile t * 2 + wg", "")
    assert {line.split(",")[0] for line in stamps(untold)} == {"drain", "load"}


def stamps(inner: str) -> list[str]:
    text = lowered(trace, inner, trace_slots=8)
    lines = [line.strip() for line in text.splitlines()]
    return [line.removeprefix("stamp spans, ") for line in lines if line.startswith("stamp")][2:-2]


def test_a_single_tile_has_number_0() -> None:
    alone = MAIN.replace("tile t * 2 + wg", "tile 0").replace("= before", "= zero")
    role = f"role compute warps 0 .. 8 {{ zero: frag<f32, 64x64> = frag.fill 0.0 {alone} }}"
    load = LOAD.replace("for m_o in 0 .. tiles {", "if 0 < n {")
    assert stamps(f"{HEAD} roles {{ {role} {load} }}") == [
        "main_loop, begin, 0",
        "main_loop, end, 0",
        "load, begin, 0",
        "load, end, 0",
    ]


@pytest.mark.parametrize("op", ["copy.tile", "cp.async"])
def test_threads_that_load_are_stamped_as_one_that_does(op: str) -> None:
    """Nothing announces their bytes."""
    head = f"{HEAD} global x: bf16[n, n] align 16"
    load = LOAD.replace(f"elect {{ {FILL} }}", f"{op} S[0, 0, 0], x[m_o * 64, m_i * 64], 64, 64")
    assert stamps(f"{head} roles {{ {COMPUTE} {load} }}")[-2:] == [
        "load, begin, m_o",
        "load, end, m_o",
    ]


def test_a_turn_of_the_epilogue_lies_within_it() -> None:
    again = COMPUTE.replace("for c in", "bar.sync order[0]\nfor c in")
    found = stamps(f"{HEAD} roles {{ {again} {LOAD} }}")
    begin, end = (
        found.index("epilogue, begin, t * 2 + wg"),
        found.index("epilogue, end, t * 2 + wg"),
    )
    assert found[begin + 1 : begin + 3] == ["turn, begin, t * 2 + wg", "turn, end, t * 2 + wg"]
    assert all(line.startswith("store_wait") for line in found[begin + 3 : end])


def test_the_name_of_the_buffer_is_new() -> None:
    taken = KERNEL.replace("param tiles: i32", "param tiles: i32\nparam spans: i32")
    assert "trace spans2[8](cta, load, turn," in lowered(trace, taken, trace_slots=8)
