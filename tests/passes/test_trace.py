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
for k in 0 .. n event main_loop t * 2 + wg
    carry (acc: frag<f32, 64x64, async> = before -> total_async) {
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
    for m_i in 0 .. n event load m_o {{
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
    """No loop says any more what it is to a tile."""
    untold = KERNEL.replace(" event main_loop t * 2 + wg", "").replace(" event load m_o", "")
    assert lowered(trace, KERNEL) == print_kernel(kernel(untold)) != print_kernel(kernel(KERNEL))


def test_a_loop_is_nothing_that_does_not_say_what_it_is() -> None:
    untold = KERNEL.replace(" event main_loop t * 2 + wg", "")
    assert {line.split(",")[0] for line in stamps(untold)} == {"drain", "load"}
    unloaded = KERNEL.replace(" event load m_o", "")
    assert not any(line.startswith("load") for line in stamps(unloaded))


def stamps(inner: str) -> list[str]:
    text = lowered(trace, inner, trace_slots=8)
    lines = [line.strip() for line in text.splitlines()]
    return [line.removeprefix("stamp spans, ") for line in lines if line.startswith("stamp")][2:-2]


def test_a_single_tile_has_number_0() -> None:
    alone = MAIN.replace("main_loop t * 2 + wg", "main_loop 0").replace("= before", "= zero")
    role = f"role compute warps 0 .. 8 {{ zero: frag<f32, 64x64> = frag.fill 0.0 {alone} }}"
    load = LOAD.replace("for m_o in 0 .. tiles {", "if 0 < n {").replace("load m_o", "load 0")
    assert stamps(f"{HEAD} roles {{ {role} {load} }}") == [
        "main_loop, begin, 0",
        "main_loop, end, 0",
        "load, begin, 0",
        "load, end, 0",
    ]


@pytest.mark.parametrize("op", ["copy.tile", "cp.async"])
def test_threads_that_load_are_stamped_as_one_that_does(op: str) -> None:
    """What stands in a loop that loads does not matter."""
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
    assert "trace spans2[8](cta, load, transform, turn," in lowered(trace, taken, trace_slots=8)


def apart(loops: str) -> list[str]:
    """Stamps of a role that computes with what others add up."""
    role = f"role after warps 0 .. 8 as wg {{ {loops} on %warpgroup.warp 0 {{ {WAIT} }} }}"
    return stamps(f"{HEAD} roles {{ {role} {LOAD} }}")[:-2]


WAIT = "elect { bulk.wait 0, read=true }"
CHUNK = f"""
on %warpgroup.warp 0 {{ {WAIT} }}
on %warpgroup.warp 0 {{ elect {{ tma.store D[0, 0], S[0, 0, 0]  bulk.commit }} }}
"""


def test_an_epilogue_with_warps_of_its_own() -> None:
    """The wait behind it is for the last stores, those in it are for buffers."""
    loop = f"for t in 0 .. tiles {{ for c in 0 .. n event epilogue t {{ {CHUNK} }} }}"
    assert apart(loop) == [
        "epilogue, begin, t", "store_wait, begin, t", "store_wait, end, t", "epilogue, end, t",
        "drain, begin, 0", "drain, end, 0",
    ]  # fmt: skip


def test_each_trip_of_a_loop_that_chooses_the_tile_is_an_event() -> None:
    """If it does not leave the loop; the turn lies within it."""
    hand = "if t < 1 { bar.arrive order[1 - wg] }"
    loop = "for t in 0 .. tiles event epilogue t * 2 + wg { break n <= t bar.sync order[wg] "
    text = lowered(trace, f"{HEAD} roles {{ role after warps 0 .. 8 as wg {{ {loop} {CHUNK} {hand}"
                   f" }} }} {LOAD} }}", trace_slots=8)  # fmt: skip
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index("break n <= t")
    assert lines[at + 1 : at + 5] == [
        "stamp spans, epilogue, begin, t * 2 + wg",
        "stamp spans, turn, begin, t * 2 + wg",
        "bar.sync order[wg]",
        "stamp spans, turn, end, t * 2 + wg",
    ]
    assert lines[at - 1] == "for t in 0 .. tiles {"
    end = lines.index("stamp spans, epilogue, end, t * 2 + wg")
    assert lines[end + 1 : end + 2] == ["}"] and "bar.arrive order[1 - wg]" in lines[at:end]


def test_results_that_threads_store_are_an_epilogue() -> None:
    """Whatever writes memory behind the main loop; what only signals does not."""
    stored = COMPUTE.replace("tma.store D[t, c * 64], S[0, 0, 0]  bulk.commit", "bulk.commit")
    behind = stored.replace(
        "yield total\n", "frag.store_global d[t * 64, 0], total\n yield total\n"
    )
    head = f"{HEAD} global d: f32[n, n] align 8"
    found = stamps(f"{head} roles {{ {behind} {LOAD} }}")
    assert {f"epilogue, {x}, t * 2 + wg" for x in ("begin", "end")} <= {*found}
    assert not any(
        line.startswith("epilogue") for line in stamps(f"{HEAD} roles {{ {stored} {LOAD} }}")
    )
