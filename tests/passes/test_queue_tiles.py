from __future__ import annotations

from dataclasses import replace

from lowering.kernel.kernel import MBarrierArray
from lowering.kernel.nodes import Atom, FetchTiles, MBarrierArrive, MBarrierWait, NextTile
from lowering.kernel.text import print_kernel
from lowering.kernel.verify import verify
from lowering.kernel.visit import walk
from passes.allocate_mbarriers import allocate_mbarriers
from passes.options import LoweringOptions
from passes.queue_tiles import queue_tiles
from tests.passes.texts import kernel, lowered, unchanged

BEFORE = """
param n: i32
shared queue_tile: s32[2][1]
ring queue(queue_tile) stages 2{teams} remote
roles {{
  role compute warps 0 .. 8 as wg {{
    for t in 0 .. n + 1 {{
      tile: i32 = next.tile queue, t{number}, n
      break n <= tile
      fence.proxy.async
    }}
  }}
  role load warps 8 .. 12 {{
    on %warpgroup.warp 0 {{
      for m in 0 .. n + 1 {{
        loaded: i32 = next.tile queue, m, n
        break n <= loaded
      }}
    }}
    on %warpgroup.warp 1 {{
      elect {{
        fetch.tiles queue, n
      }}
    }}
  }}
}}
cta.sync
"""
COOPERATIVE = BEFORE.format(teams="", number="")
PING_PONG = BEFORE.format(teams=" teams 2", number=" * 2 + wg")


def test_cooperative(golden: object) -> None:
    """Entries are steps of the ring, in all who read them."""
    assert lowered(queue_tiles, COOPERATIVE) == golden


def test_ping_pong(golden: object) -> None:
    """One warpgroup reads an entry, and each finds an end mark of its own."""
    assert lowered(queue_tiles, PING_PONG) == golden


def test_cluster(golden: object) -> None:
    """One thread of the cluster takes tiles, for all its CTAs; all readers answer to it."""
    clustered = replace(kernel(PING_PONG), cluster=2)
    new = queue_tiles(clustered, LoweringOptions())
    assert verify(new) == []
    assert print_kernel(new) == golden


def test_nothing_is_left_of_the_queue() -> None:
    new = queue_tiles(kernel(COOPERATIVE), LoweringOptions())
    assert not any(isinstance(s, FetchTiles | NextTile) for s in walk(new.body))
    assert sum(isinstance(s, Atom) for s in walk(new.body)) == 1
    assert [r.name for r in new.rings] == ["queue"]
    assert queue_tiles(new, LoweringOptions()) == new


def test_a_kernel_without_a_queue_is_left_alone() -> None:
    assert unchanged(queue_tiles, "roles { role all warps 0 .. 4 { cta.sync } }")


def test_arrivals() -> None:
    """Both compute warpgroups and the load warp read each entry: 9 warps release it; one of two
    in ping-pong; in a cluster those of all CTAs, at the first.
    """
    for text, cluster, arrivals in ((COOPERATIVE, 1, 9), (PING_PONG, 1, 5), (PING_PONG, 2, 10)):
        before = replace(kernel(text), cluster=cluster)
        new = allocate_mbarriers(queue_tiles(before, LoweringOptions()), LoweringOptions())
        assert verify(new) == []
        assert new.mbarriers == (
            MBarrierArray("queue_full", 2, 1), MBarrierArray("queue_empty", 2, arrivals),
        )  # fmt: skip
        orders = {s.order for s in walk(new.body) if isinstance(s, MBarrierArrive | MBarrierWait)}
        scope = "cta" if cluster == 1 else "cluster"
        assert orders == {f"acquire.{scope}", f"release.{scope}"}


HANDED = """
param n: i32
shared queue_group: s32[2][1]
shared queue_tile: s32[2][1]
ring queue(queue_group, queue_tile) stages 2
roles {
  role compute warps 0 .. 4 {
    for t in 0 .. n + 1 {
      group: i32 = next.tile queue, t, n
      tile: i32 = next.tile queue, t, n, word=1
      break n <= group
      fence.proxy.async
    }
  }
  role load warps 4 .. 8 {
    on %warpgroup.warp 1 {
      for i in 0 .. n + 1 {
        elect {
          hand.tile queue, i, i
          hand.tile queue, i, i * 2, word=1
        }
      }
    }
  }
}
cta.sync
"""


def test_entries_that_a_thread_hands_over(golden: object) -> None:
    """A step is begun in front of its first word and ends behind its last, on both sides; nobody
    counts.
    """
    assert lowered(queue_tiles, HANDED) == golden
