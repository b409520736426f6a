"""Every order of the tiles, with every cluster, on the machine: odd numbers of tiles, all of them.

The result is poisoned before the run: a tile that no CTA visits shows, and so does a store that is
out of bounds. ``tests/fusion/test_domain.py`` shows that the orders are bijections; here they meet
 multicast, CTAs without a tile, and groups of wgmmas in flight.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.on_machine import NUMPY, Problem, exact, kernel, operands, run
from tests.schedules import cooperative
from wsched.schedule.matmul.params import TileRasterizationOrder

CLUSTERS = [(1, 1), (2, 1), (1, 2), (2, 2)]


@pytest.mark.sampled
@pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "tile_per_cta"])
@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda c: f"{c[0]}x{c[1]}")
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("order", TileRasterizationOrder, ids=lambda o: o.name)
def test_every_tile_once(
    order: TileRasterizationOrder, group: int, cluster: tuple[int, int], persistent: bool
) -> None:
    """3 x 3 tiles on one or two clusters: each group of 2 has a narrower one behind it."""
    params = cooperative(
        64, 64, stages=3, groups=1, registers=None, persistent=persistent, cluster=cluster,
        order=order, traversal=(group, 1), in_flight=CLUSTERS.index(cluster) % 3,
    )  # fmt: skip
    problem = Problem(2 * 64 + 8, 2 * 64 + 8, 8, 2 * cluster[0] * cluster[1])
    a, b = operands(problem, "bf16", 0, integer=True)
    d = run(kernel(params), problem, a, b, "bf16")
    assert np.array_equal(d, exact(a, b).astype(NUMPY["bf16"]))


@pytest.mark.sampled
@pytest.mark.parametrize("in_flight", [0, 1, 2])
@pytest.mark.parametrize("cluster", CLUSTERS[1:], ids=lambda c: f"{c[0]}x{c[1]}")
def test_releases_reach_the_peers_with_any_groups_in_flight(
    cluster: tuple[int, int], in_flight: int
) -> None:
    """Five k steps through the fewest stages; three tiles along M and one along N."""
    params = cooperative(
        64, 64, stages=max(2, in_flight + 1), in_flight=in_flight, groups=1, registers=None,
        cluster=cluster,
    )  # fmt: skip
    problem = Problem(2 * 64 + 8, 40, 5 * 64, cluster[0] * cluster[1])
    a, b = operands(problem, "bf16", 0, integer=True)
    d = run(kernel(params), problem, a, b, "bf16", adversary="lazy")
    assert np.array_equal(d, exact(a, b).astype(NUMPY["bf16"]))
