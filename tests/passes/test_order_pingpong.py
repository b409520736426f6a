from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import evaluate
from lowering.kernel.nodes import BarArrive, BarSync, FenceProxyAsync, WaitFull
from passes.options import LoweringOptions
from passes.order_pingpong import order_pingpong
from tests.kernel.expressions import budget
from tests.passes.evaluator import execute_role
from tests.passes.texts import full, kernel, lowered, unchanged

HEAD = """
param tiles: i32
param n: i32
named_barrier other[3] id 1 threads 128
"""
RING = "circular_buffer ring() stages 4 groups 2 consumers 1 in_flight 1\n"
BEFORE = """
roles {
  role compute warps 0 .. 8 as wg {
    for t in 0 .. ceildiv(max(tiles - wg, 0), 2) {
      zero: frag<f32, 64x8> = frag.fill 0.0
      for k in 0 .. n carry (acc: frag<f32, 64x8, async> = zero -> sum) {
        wait_full ring, (t * 2 + wg) * n + k
        yield acc
      }
      total: frag<f32, 64x8> = wgmma.wait sum, 0
      if 0 < n {
        release ring, n - 1
      }
      fence.proxy.async
    }
  }
  role load warps 8 .. 12 {
    cta.sync
  }
}
"""
AFTER = """
roles {
  role compute warps 0 .. 8 as wg {
    if wg == 1 and 0 < ceildiv(max(tiles, 0), 2) {
      bar.arrive order[0]
    }
    for t in 0 .. ceildiv(max(tiles - wg, 0), 2) {
      zero: frag<f32, 64x8> = frag.fill 0.0
      bar.sync order[wg]
      for k in 0 .. n carry (acc: frag<f32, 64x8, async> = zero -> sum) {
        wait_full ring, (t * 2 + wg) * n + k
        yield acc
      }
      if t + wg < ceildiv(max(tiles - (1 - wg), 0), 2) {
        bar.arrive order[1 - wg]
      }
      total: frag<f32, 64x8> = wgmma.wait sum, 0
      if 0 < n {
        release ring, n - 1
      }
      fence.proxy.async
    }
  }
  role load warps 8 .. 12 {
    cta.sync
  }
}
"""


def test_turns_around_whole_main_loops() -> None:
    """The barrier has both groups' threads, and an id later."""
    order = "named_barrier order[2] threads 256\n"
    before = full(HEAD + RING + BEFORE)
    assert lowered(order_pingpong, HEAD + RING + BEFORE) == full(HEAD + order + RING + AFTER)
    assert before != full(HEAD + order + RING + AFTER)


@budget(40)
@given(st.integers(0, 7), st.integers(0, 2))
def test_every_sync_meets_one_arrive(tiles: int, n: int) -> None:
    """Both groups executed in turns: main loops alternate, nobody hangs, nothing is left over."""
    new = order_pingpong(kernel(HEAD + RING + BEFORE), LoweringOptions())
    groups = [execute_role(new, "compute", {"tiles": tiles, "n": n}, g) for g in (0, 1)]
    arrived = [0, 0]
    steps: list[int] = []
    epilogues = [0, 0]
    waiting: list[int | None] = [None, None]
    for _ in range(200):
        for g, events in enumerate(groups):
            if waiting[g] is not None:
                if not arrived[g]:
                    continue
                arrived[g] -= 1
                waiting[g] = None
            stmt, env = next(events, (None, {}))
            match stmt:
                case BarSync(bar):
                    assert evaluate(bar.index, env) == g
                    waiting[g] = g
                case BarArrive(bar):
                    arrived[evaluate(bar.index, env)] += 1
                    assert max(arrived) <= 1
                case WaitFull(step=step):
                    steps.append(evaluate(step, env))
                case FenceProxyAsync():
                    epilogues[g] += 1
    assert waiting == [None, None]
    assert arrived == [0, 0]
    assert steps == list(range(tiles * n))
    assert epilogues == [(tiles + 1) // 2, tiles // 2]


def test_cooperative_groups_need_no_order() -> None:
    assert unchanged(order_pingpong, HEAD + RING.replace("consumers 1", "consumers 2") + BEFORE)


def test_more_than_two_groups() -> None:
    text = HEAD + RING.replace("groups 2", "groups 3") + BEFORE.replace("8 .. 12", "12 .. 16")
    text = text.replace("0 .. 8", "0 .. 12")
    with pytest.raises(UnsupportedError) as error:
        lowered(order_pingpong, text)
    assert str(error.value) == (
        "ping-pong over 3 compute warpgroups is not supported; supported: two warpgroups"
    )


def test_a_role_without_a_group_index() -> None:
    text = BEFORE.replace(" as wg", "").replace("- wg", "- 0").replace("+ wg", "+ 0")
    with pytest.raises(InternalError) as error:
        lowered(order_pingpong, HEAD + RING + text)
    assert str(error.value) == (
        "order_pingpong: role compute has no group index\n"
        "This is a defect of wsched, please report it with the dump."
    )


def test_a_main_loop_outside_a_tile_loop() -> None:
    """One tile for each CTA leaves the groups nothing to take turns with."""
    text = """
roles {
  role compute warps 0 .. 8 as wg {
    for k in 0 .. n {
      wait_full ring, k
    }
  }
}
"""
    with pytest.raises(InternalError) as error:
        lowered(order_pingpong, HEAD + RING + text)
    assert str(error.value) == (
        "order_pingpong: role compute has no tile loop around its main loop\n"
        "This is a defect of wsched, please report it with the dump."
    )


AUX = """circular_buffer aux() stages 2 groups 2 consumers 1 in_flight 0
circular_buffer aux2() stages 2 groups 2 consumers 1 in_flight 0
"""
EPILOGUE = """for c in 0 .. 2 {
        wait_full aux, (t * 2 + wg) * 2 + c
        wait_full aux2, (t * 2 + wg) * 2 + c
        fence.proxy.async
      }
"""


def test_epilogues_that_consume_steps_take_turns_too() -> None:
    """Once for all circular buffers that one loop consumes, with barriers of their own."""
    before = HEAD + RING + AUX + BEFORE.replace("fence.proxy.async\n", EPILOGUE)
    order = "named_barrier order[2] threads 256\nnamed_barrier order2[2] threads 256\n"
    turns = "t + wg < ceildiv(max(tiles - (1 - wg), 0), 2)"
    begin = "if wg == 1 and 0 < ceildiv(max(tiles, 0), 2) {\n      bar.arrive order[0]\n    }\n"
    after = AFTER.replace(begin, begin + "    " + begin.replace("order", "order2")).replace(
        "fence.proxy.async\n",
        f"bar.sync order2[wg]\n      {EPILOGUE}"
        f"      if {turns} {{\n        bar.arrive order2[1 - wg]\n      }}\n",
    )
    assert lowered(order_pingpong, before) == full(HEAD + order + RING + AUX + after)


DEALT = """
tile_queue queue stages 2 groups 2 consumers 1
roles {
  role compute warps 0 .. 8 as wg {
    for t in 0 .. tiles + 1 {
      tile: i32 = next.tile queue, t * 2 + wg
      break tiles <= tile
      for k in 0 .. n {
        wait_full ring, (t * 2 + wg) * n + k
      }
      fence.proxy.async
    }
  }
  role load warps 8 .. 12 {
    cta.sync
  }
}
"""


def test_turns_that_are_dealt_out(golden: object) -> None:
    """Each turn is handed over, and at the first end mark the one that is left over is taken."""
    assert lowered(order_pingpong, HEAD + RING + DEALT) == golden
