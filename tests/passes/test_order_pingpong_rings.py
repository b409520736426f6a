"""Turns with several circular buffers, or with one that has a step for each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passes.options import LoweringOptions
from passes.order_pingpong import order_pingpong
from tests.lowering.ground.expressions import budget
from tests.passes.test_order_pingpong import AFTER, BEFORE, HEAD, RING, in_turn
from tests.passes.texts import full, kernel, lowered

AUX = """ring aux() stages 2 teams 2
ring aux2() stages 2 teams 2
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


ONE_STEP = """
roles {
  role compute warps 0 .. 8 as wg {
    for t in 0 .. ceildiv(max(tiles - wg, 0), 2) {
      wait_full ring, t * 2 + wg
      wait_full aux, t * 2 + wg
      for c in 0 .. n unroll {
        cta.sync
      }
      fence.proxy.async
    }
  }
  role load warps 8 .. 12 {
    cta.sync
  }
}
"""


def test_turns_of_one_step() -> None:
    """The loop over turns is not a turn: its steps do not follow each other."""
    order = "named_barrier order[2] threads 256\n"
    begin = "    if wg == 1 and 0 < ceildiv(max(tiles, 0), 2) {\n      bar.arrive order[0]\n    }\n"
    turns = "t + wg < ceildiv(max(tiles - (1 - wg), 0), 2)"
    hand = f"      if {turns} {{\n        bar.arrive order[1 - wg]\n      }}\n"
    after = ONE_STEP.replace("    for t in", f"{begin}    for t in")
    after = after.replace("wait_full ring", "bar.sync order[wg]\n      wait_full ring").replace(
        "wait_full aux, t * 2 + wg\n",
        f"wait_full aux, t * 2 + wg\n{hand}",
    )
    rings = RING + AUX.splitlines()[0] + "\n"
    assert lowered(order_pingpong, HEAD + rings + ONE_STEP) == full(HEAD + order + rings + after)


@budget(40)
@given(st.integers(0, 7))
def test_turns_of_one_step_meet(tiles: int) -> None:
    rings = RING + AUX.splitlines()[0] + "\n"
    new = order_pingpong(kernel(HEAD + rings + ONE_STEP), LoweringOptions())
    steps, epilogues = in_turn(new, 2, {"tiles": tiles, "n": 2})
    assert steps == [step for step in range(tiles) for _ in "ab"]
    assert epilogues == [(tiles + 1) // 2, tiles // 2]


BLOCKS = """
roles {
  role compute warps 0 .. 8 as wg {
    for t in 0 .. tiles {
      for c in 0 .. 4 event epilogue t {
        wait_full aux, (t * 4 + c) * 2 + wg
        fence.proxy.async
      }
    }
  }
  role load warps 8 .. 12 {
    cta.sync
  }
}
"""


def test_turns_of_one_step_within_a_tile() -> None:
    """A loop over steps of one tile is no turn if others take steps between: who has all of its own
    first would wait for more than there are stages.
    """
    new = lowered(order_pingpong, HEAD + AUX.splitlines()[0] + "\n" + BLOCKS)
    lines = [line.strip() for line in new.splitlines()]
    begin, end = (n for n, line in enumerate(lines) if line.startswith(("for c", "fence")))
    assert lines[begin + 1 : end] == [
        "bar.sync order[wg]",
        "wait_full aux, (t * 4 + c) * 2 + wg",
        "if wg == 1 and (t + 1 < tiles or c + 1 < 4) or wg < 1 and (t < tiles and c < 4) {",
        "bar.arrive order[1 - wg]",
        "}",
    ]


PAIRS = BLOCKS.replace(
    "        wait_full aux, (t * 4 + c) * 2 + wg\n",
    """        for p in 0 .. 3 {
          wait_full aux, ((t * 4 + c) * 2 + wg) * 3 + p
        }
""",
)


@pytest.mark.parametrize("loops", ["c in 0 .. 4", "d in 0 .. 2 event epilogue t", ""])
def test_turns_of_some_steps_within_a_tile(loops: str) -> None:
    """So is a loop in whose trips each has a turn of several steps, and one around that; a loop of
    such a turn is none.
    """
    text, turns = PAIRS, "t * 4 + c"
    if "d" in loops:
        inner = "for c in 0 .. 4 event epilogue t {"
        text = text.replace(inner, f"for {loops} {{\n{inner}").replace("async\n", "async\n}\n")
        text = text.replace(turns, "(t * 2 + d) * 4 + c")
    elif not loops:
        text = text.replace("((t * 4 + c) * 2 + wg) * 3 + p", "(t * 2 + wg) * 12 + c * 3 + p")
    new = lowered(order_pingpong, HEAD + AUX.splitlines()[0] + "\n" + text)
    lines = [line.strip() for line in new.splitlines()]
    enter = lines.index("bar.sync order[wg]")
    assert lines[enter - 1].startswith("for c" if loops else "for t")
    assert lines[enter + 1].startswith("for p" if loops else "for c")


@pytest.mark.parametrize("steps", ["t * 2 + wg", "(t * 4 + c) * 2 + wg"])
def test_a_queue_whose_tiles_teams_share(steps: str) -> None:
    """All of them find its end at once; what the last one has handed on the first one takes."""
    turn = f"wait_full aux, {steps}"
    loop = f"for c in 0 .. 4 event epilogue t {{\n{turn}\n}}" if "c" in steps else turn
    asked = "tile: i32 = next.tile queue, t, tiles\nbreak tiles <= tile"
    text = f"""
roles {{
  role compute warps 0 .. 8 as wg {{
    for t in 0 .. tiles + 1 {{
      {asked}
      {loop}
      fence.proxy.async
    }}
  }}
}}
"""
    rings = AUX.splitlines()[0] + "\nring queue() stages 2 remote\n"
    new = lowered(order_pingpong, HEAD + rings + text)
    lines = [line.strip() for line in new.splitlines() if line.strip() != "}"]
    begin, end = (n for n, line in enumerate(lines) if line.startswith(("role ", "fence")))
    assert lines[begin + 1 : end] == [
        "if wg == 1 {",
        "bar.arrive order[0]",
        "for t in 0 .. tiles + 1 {",
        "tile: i32 = next.tile queue, t, tiles",
        "if tile == tiles and wg % 2 == 0 {",
        "bar.sync order[wg]",
        "break tiles <= tile",
        *(["for c in 0 .. 4 event epilogue t {"] if "c" in steps else []),
        "bar.sync order[wg]",
        turn,
        "bar.arrive order[1 - wg]",
    ]


ALONE_TWICE = """
roles {
  role compute warps 0 .. 8 as wg {
    wait_full ring, wg
    for c in 0 .. 2 {
      wait_full aux, wg * 2 + c
    }
    release ring, wg
  }
  role load warps 8 .. 12 {
    cta.sync
  }
}
"""


def test_all_first_turns_come_in_front_of_all_turns() -> None:
    """The second group would let the first one begin behind a wait for its own step of ``ring``,
    which is filled when the first one has done with its turn.
    """
    rings = RING + AUX.splitlines()[0] + "\n"
    new = lowered(order_pingpong, HEAD + rings + ALONE_TWICE)
    lines = [line.strip() for line in new.splitlines()]
    turns = [line for line in lines if line.startswith(("bar.", "wait_full"))]
    assert turns == [
        "bar.arrive order[0]",
        "bar.arrive order2[0]",
        "bar.sync order[wg]",
        "wait_full ring, wg",
        "bar.arrive order[1 - wg]",
        "bar.sync order2[wg]",
        "wait_full aux, wg * 2 + c",
        "bar.arrive order2[1 - wg]",
    ]


OWN = """ring aux() stages 2 teams 2
ring own() stages 1 teams 2 dealing 2
"""
DEALT = """
roles {
  role compute warps 0 .. 16 as wg {
    for t in 0 .. tiles {
      wait_full own, t * 4 + wg
      wait_full aux, t * 2 + wg // 2
      fence.proxy.async
    }
  }
  role load warps 16 .. 20 {
    cta.sync
  }
}
"""


def turns_of(text: str, rings: str = OWN) -> tuple[list[str], list[str]]:
    """The barriers, and what is done to them and to the rings."""
    lines = [line.strip() for line in lowered(order_pingpong, HEAD + rings + text).splitlines()]
    declared = [line for line in lines if line.startswith("named_barrier order")]
    done = [line for line in lines if line.startswith(("bar.", "wait_full"))]
    return declared, [line for line in done if "order" in line or "wait_full" in line]


@pytest.mark.parametrize("rings", [OWN, "\n".join(OWN.splitlines()[::-1]) + "\n"])
def test_a_turn_with_what_is_dealt_out_is_one_with_what_is_taken_beside(rings: str) -> None:
    """Whichever ring is the first one: those who have a step of ``own`` each wait for another phase
    of the one stage.
    """
    text = DEALT.replace("tiles {", "ceildiv(max(tiles - wg // 2, 0), 2) {")
    assert turns_of(text, rings) == (
        ["named_barrier order[4] threads 256"],
        [
            "bar.arrive order[0]",
            "bar.sync order[wg]",
            "wait_full own, t * 4 + wg",
            "wait_full aux, t * 2 + wg // 2",
            "bar.arrive order[select(wg == 3, 0, wg + 1)]",
        ],
    )


def test_a_team_meets_in_front_of_what_is_dealt_out() -> None:
    """Chunks that all of a team take: who has a step of ``own`` would wait for the next one, which
    waits for that step.
    """
    chunks = "for c in 0 .. n {\n        wait_full aux, (t * 2 + wg // 2) * n + c\n      }"
    text = DEALT.replace("wait_full aux, t * 2 + wg // 2", chunks)
    declared, done = turns_of(text.replace("tiles {", "ceildiv(max(tiles - wg // 2, 0), 2) {"))
    assert declared == [
        "named_barrier order[2] threads 512",
        "named_barrier order2[4] threads 256",
    ]
    assert done == [
        "bar.arrive order[0]",
        "bar.arrive order2[0]",
        "bar.sync order[wg // 2]",
        "bar.sync order2[wg]",
        "wait_full own, t * 4 + wg",
        "bar.arrive order2[select(wg == 3, 0, wg + 1)]",
        "wait_full aux, (t * 2 + wg // 2) * n + c",
        "bar.arrive order[1 - wg // 2]",
    ]
