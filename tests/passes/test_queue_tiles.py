from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import InternalError
from lowering.kernel.nodes import Atom, FetchTiles, NextTile
from lowering.kernel.text import print_kernel
from lowering.kernel.verify import verify
from lowering.kernel.visit import walk
from passes.options import LoweringOptions
from passes.queue_tiles import queue_tiles
from tests.passes.texts import kernel, lowered, unchanged

BEFORE = """
param n: i32
tile_queue queue stages 2 groups 2 consumers {consumers}
roles {{
  role compute warps 0 .. 8 as wg {{
    for t in 0 .. n + 1 {{
      tile: i32 = next.tile queue, t{number}
      break n <= tile
      fence.proxy.async
    }}
  }}
  role load warps 8 .. 12 {{
    if %warpgroup.warp == 0 {{
      for m in 0 .. n + 1 {{
        loaded: i32 = next.tile queue, m
        break n <= loaded
      }}
    }}
    if %warpgroup.warp == 1 {{
      elect {{
        fetch.tiles queue, n
      }}
    }}
  }}
}}
cta.sync
"""
COOPERATIVE = BEFORE.format(consumers=2, number="")
PING_PONG = BEFORE.format(consumers=1, number=" * 2 + wg")


def test_cooperative(golden: object) -> None:
    """Both compute warpgroups and the load warp read each entry: 9 warps release it."""
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
    assert new.tile_queues == ()
    assert queue_tiles(new, LoweringOptions()) == new


def test_a_kernel_without_a_queue_is_left_alone() -> None:
    assert unchanged(queue_tiles, "roles { role all warps 0 .. 4 { cta.sync } }")


def test_a_queue_that_nobody_reads() -> None:
    with pytest.raises(InternalError) as error:
        lowered(queue_tiles, "tile_queue queue stages 2 groups 1 consumers 1 cta.sync")
    assert error.value.why == "nobody reads queue"


def test_an_entry_that_is_read_twice() -> None:
    line = "      break n <= tile\n"
    twice = COOPERATIVE.replace(line, line + "      again: i32 = next.tile queue, t\n")
    with pytest.raises(InternalError) as error:
        lowered(queue_tiles, twice)
    assert error.value.why == "role compute reads an entry 2 times"
