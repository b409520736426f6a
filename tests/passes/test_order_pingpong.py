from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.errors import InternalError
from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import BarArrive, BarSync, FenceProxyAsync, WaitFull
from passes.options import LoweringOptions
from passes.order_pingpong import order_pingpong
from tests.lowering.ground.expressions import budget
from tests.passes.evaluator import execute_role
from tests.passes.texts import full, kernel, lowered, unchanged

HEAD = """
param tiles: i32
param n: i32
named_barrier other[3] id 1 threads 128
"""
RING = "ring ring() stages 4 teams 2 in_flight 1\n"
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


def test_names_that_stand_for_names_of_a_group() -> None:
    """The other group's are asked for by its index, through all of them."""
    names = "    let twice: i32 = wg * 2\n    let mine: i32 = twice // 2\n"
    bound = "    for t in 0 .. ceildiv(max(tiles - wg, 0), 2) {"
    before = BEFORE.replace(bound, names + bound.replace("tiles - wg", "tiles - mine"))
    made = lowered(order_pingpong, HEAD + RING + before)
    assert "if t + wg < ceildiv(max(tiles - (1 - wg) * 2 // 2, 0), 2) {" in made
    assert "if wg == 1 and 0 < ceildiv(max(tiles, 0), 2) {" in made


@budget(40)
@given(st.integers(0, 7), st.integers(0, 2))
def test_every_sync_meets_one_arrive(tiles: int, n: int) -> None:
    """Both groups executed in turns: main loops alternate, nobody hangs, nothing is left over."""
    new = order_pingpong(kernel(HEAD + RING + BEFORE), LoweringOptions())
    steps, epilogues = in_turn(new, 2, {"tiles": tiles, "n": n})
    assert steps == list(range(tiles * n))
    assert epilogues == [(tiles + 1) // 2, tiles // 2]


def in_turn(
    new: Kernel, count: int, env: dict[str, int], groups: range | None = None
) -> tuple[list[int], list[int]]:
    """The steps as teams consume them, and how many epilogues each has; all arrivals are met.

    ``groups`` is one of each team; each group is a team by default.
    """
    events_of = [execute_role(new, "compute", env, g) for g in groups or range(count)]
    arrived, epilogues = [0] * count, [0] * count
    steps: list[int] = []
    waiting: list[int | None] = [None] * count
    for _ in range(400):
        for g, events in enumerate(events_of):
            if waiting[g] is not None:
                if not arrived[g]:
                    continue
                arrived[g] -= 1
                waiting[g] = None
            stmt, scalars = next(events, (None, {}))
            match stmt:
                case BarSync(bar):
                    assert evaluate(bar.index, scalars) == g
                    waiting[g] = g
                case BarArrive(bar):
                    arrived[evaluate(bar.index, scalars)] += 1
                    assert max(arrived) <= 1
                case WaitFull(step=step):
                    steps.append(evaluate(step, scalars))
                case FenceProxyAsync():
                    epilogues[g] += 1
    assert waiting == [None] * count
    assert arrived == [0] * count
    return steps, epilogues


def test_cooperative_groups_need_no_order() -> None:
    assert unchanged(order_pingpong, HEAD + RING.replace(" teams 2", "") + BEFORE)


def test_teams_of_groups() -> None:
    """All of a team arrive and wait: the barriers are of two teams."""
    head = HEAD + "named_barrier order[2] threads 512\n" + RING
    changes = {
        "8 .. 12": "16 .. 20",
        "0 .. 8 as wg {": "0 .. 16 as wg {\n    let team: i32 = wg // 2",
        "if wg == 1": "if wg // 2 == 1",
        "tiles - wg": "tiles - team",
        "2 + wg": "2 + team",
        "t + wg": "t + wg // 2",
        "tiles - (1 - wg)": "tiles - (1 - wg // 2) * 2 // 2",
        "[1 - wg]": "[1 - wg // 2]",
        "[wg]": "[wg // 2]",
    }
    before, after = BEFORE, AFTER
    for old, new in changes.items():
        before, after = before.replace(old, new), after.replace(old, new)
    assert lowered(order_pingpong, HEAD + RING + before) == full(head + after)


def test_a_role_that_is_no_whole_teams() -> None:
    text = BEFORE.replace("8 .. 12", "12 .. 16").replace("0 .. 8", "0 .. 12")
    with pytest.raises(InternalError) as error:
        lowered(order_pingpong, HEAD + RING + text)
    assert error.value.why == "role compute of 3 groups is no 2 teams"


def test_a_role_without_a_group_index() -> None:
    text = BEFORE.replace(" as wg", "").replace("- wg", "- 0").replace("+ wg", "+ 0")
    with pytest.raises(InternalError) as error:
        lowered(order_pingpong, HEAD + RING + text)
    assert str(error.value) == (
        "order_pingpong: role compute has no group index\n"
        "This is a defect of wsched, please report it with the dump."
    )


ONE_TURN = """
roles {
  role compute warps 0 .. 8 as wg {
    if %ctaid.x * 2 + wg < tiles {
      for k in 0 .. n {
        wait_full ring, wg * n + k
      }
      fence.proxy.async
    }
  }
  role load warps 8 .. 12 {
    cta.sync
  }
}
"""
AFTER_ONE_TURN = """
roles {
  role compute warps 0 .. 8 as wg {
    if wg == 1 and %ctaid.x * 2 < tiles {
      bar.arrive order[0]
    }
    if %ctaid.x * 2 + wg < tiles {
      bar.sync order[wg]
      for k in 0 .. n {
        wait_full ring, wg * n + k
      }
      if wg < 1 and %ctaid.x * 2 + (1 - wg) < tiles {
        bar.arrive order[1 - wg]
      }
      fence.proxy.async
    }
  }
  role load warps 8 .. 12 {
    cta.sync
  }
}
"""


def test_one_turn_for_each_group() -> None:
    """The last one may have none."""
    order = "named_barrier order[2] threads 256\n"
    assert lowered(order_pingpong, HEAD + RING + ONE_TURN) == full(
        HEAD + order + RING + AFTER_ONE_TURN
    )


LOOPS = """
roles {
  role compute warps 0 .. 12 as wg {
    for r in 0 .. rows {
      for t in 0 .. ceildiv(max(tiles - wg, 0), 3) {
        for k in 0 .. n {
          wait_full ring, ((r * ceildiv(tiles, 3) + t) * 3 + wg) * n + k
        }
        fence.proxy.async
      }
    }
  }
  role load warps 12 .. 16 {
    cta.sync
  }
}
"""


@budget(40)
@given(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2))
def test_three_groups_in_two_loops(rows: int, turns: int, n: int) -> None:
    """Each takes its turns in order, those of the next row behind those of the one before."""
    head = HEAD.replace("param n", "param rows: i32\nparam n")
    before = kernel(head + RING.replace("teams 2", "teams 3") + LOOPS)
    after = order_pingpong(before, LoweringOptions())
    env = {"tiles": 3 * turns, "rows": rows, "n": n}
    steps, epilogues = in_turn(after, 3, env)
    assert steps == list(range(rows * 3 * turns * n))
    assert epilogues == [rows * turns] * 3


@budget(40)
@given(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2), st.integers(0, 1))
def test_three_teams_of_two_groups(rows: int, turns: int, n: int, place: int) -> None:
    """As three groups, whichever of a team is looked at."""
    loops = LOOPS.replace("0 .. 12", "0 .. 24").replace("12 .. 16", "24 .. 28")
    head = HEAD.replace("param n", "param rows: i32\nparam n")
    text = (
        head
        + RING.replace("teams 2", "teams 3")
        + loops.replace("wg)", "team)")
        .replace("- wg", "- team")
        .replace("for r in", "let team: i32 = wg // 2\n    for r in")
    )
    after = order_pingpong(kernel(text), LoweringOptions())
    env = {"tiles": 3 * turns, "rows": rows, "n": n}
    steps, epilogues = in_turn(after, 3, env, range(place, 6, 2))
    assert steps == list(range(rows * 3 * turns * n))
    assert epilogues == [rows * turns] * 3


DEALT = """
ring queue() stages 2 teams 2 remote
roles {
  role compute warps 0 .. 8 as wg {
    for t in 0 .. tiles + 1 {
      tile: i32 = next.tile queue, t * 2 + wg, tiles
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


@pytest.mark.parametrize(
    ("queues", "first", "some"),
    [
        ("ring queue() stages 2 teams 3 remote\n", "queue", "3"),
        ("ring queue() stages 2 teams 4 remote\n", "queue", "4"),
        (
            "ring queue() stages 2 teams 2 remote\nring more() stages 2 remote\n",
            "more",
            "1 and 2",
        ),
        (
            "ring more() stages 2 remote\nring queue() stages 2 teams 2 remote\n",
            "more",
            "1 and 2",
        ),
    ],
)
def test_tiles_of_a_queue_that_are_not_shared_alike(queues: str, first: str, some: str) -> None:
    """Who finds the end of a queue first is known where as many teams have each tile."""
    asked = "      first: i32 = next.tile more, t, tiles\n" if first == "more" else ""
    text = DEALT.replace("\nring queue() stages 2 teams 2 remote\n", queues)
    text = text.replace("      tile: i32 =", f"{asked}      tile: i32 =")
    with pytest.raises(InternalError) as error:
        order_pingpong(kernel(HEAD + RING + text), LoweringOptions())
    assert error.value.why == f"role compute takes ring in 2 turns, tiles of a queue in {some}"


def test_a_turn_is_all_steps_of_a_tile_also_in_two_loops() -> None:
    text = """
roles {
  role compute warps 0 .. 8 as wg {
    for t in 0 .. ceildiv(max(tiles - wg, 0), 2) {
      for k in 0 .. n event main_loop t {
        for j in 0 .. n {
          wait_full ring, ((t * 2 + wg) * n + k) * n + j
        }
      }
    }
  }
}
"""
    new = lowered(order_pingpong, HEAD + RING + text)
    lines = [line.strip() for line in new.splitlines()]
    at = lines.index("bar.sync order[wg]")
    assert lines[at + 1] == "for k in 0 .. n event main_loop t {"
    assert lines[at + 6].startswith("if t + wg < ")


ALONE = """
roles {
  role compute warps 0 .. 8 as wg {
    wait_full ring, wg
    fence.proxy.async
  }
  role load warps 8 .. 12 {
    cta.sync
  }
}
"""


def test_one_turn_of_one_step() -> None:
    new = order_pingpong(kernel(HEAD + RING + ALONE), LoweringOptions())
    assert in_turn(new, 2, {"tiles": 2, "n": 1}) == ([0, 1], [1, 1])
