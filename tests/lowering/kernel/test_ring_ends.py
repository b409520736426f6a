"""Who fills and who reads the steps of a ring, and in how many teams."""

from __future__ import annotations

import pytest

from lowering.kernel.kernel import Kernel, Ring
from lowering.kernel.nodes import Role, Roles
from lowering.kernel.ring_ends import ends_of, teams_of
from tests.passes.texts import kernel

KERNEL = """
param n: i32
shared word: s32[2][1]
ring queue(word) stages 2 teams 2
roles {
  role load warps 0 .. 4 as loads {
    for i in 0 .. n {
      wait_full queue, i
      release queue, i
    }
  }
  role compute warps 4 .. 20 as wg {
    let turn: i32 = wg // 2
    for t in TRIPS {
      wait_full queue, STEP
      release queue, STEP
      YIELD
    }
  }
  role fetch warps 20 .. 24 {
    on %warpgroup.warp 0 {
      elect {
        for m in 0 .. n {
          acquire queue, m
          st.word word[stage(m, 2), 0], m
          commit queue, m
        }
      }
    }
  }
}
"""
TURNS = {
    "by the index": ("0 .. n", "t * 2 + wg // 2"),
    "by what is made of it": ("0 .. n", "t * 2 + turn"),
    "by where a loop begins": ("turn .. n", "t"),
    "by what a loop carries": ("0 .. n carry (own: i32 = turn -> last)", "own"),
}


def made(trips: str, step: str) -> tuple[Kernel, Ring, dict[str, Role]]:
    """The kernel whose warpgroups that compute wait for these steps."""
    text = KERNEL.replace("YIELD", "yield own + 2" if "carry" in trips else "")
    k = kernel(text.replace("TRIPS", trips).replace("STEP", step))
    (roles,) = (s for s in k.body if isinstance(s, Roles))
    return k, k.rings[0], {r.name: r for r in roles.roles}


@pytest.mark.parametrize("turns", TURNS)
def test_warpgroups_take_turns_where_their_step_says_so(turns: str) -> None:
    """Those that load wait for each step, though they have an index, too."""
    k, ring, roles = made(*TURNS[turns])
    assert [teams_of(ring, roles[name]) for name in ("load", "compute", "fetch")] == [1, 2, 1]
    assert ends_of(k, ring).empty == 4 + 16 // 2


def test_no_turns_without_teams() -> None:
    _, ring, roles = made("0 .. n", "t * 2 + turn")
    one = Ring(ring.name, ring.buffers, ring.stages)
    assert teams_of(one, roles["compute"]) == 1


def test_who_deals_out_the_steps_of_a_turn_takes_other_ones() -> None:
    k, ring, roles = made("0 .. n", "t * 4 + wg")
    dealt = Ring(ring.name, ring.buffers, ring.stages, teams=2, dealing=2)
    assert [teams_of(dealt, roles[name]) for name in ("load", "compute")] == [1, 4]
    assert ends_of(k, dealt).empty == 4 + 16 // 4
