"""Stream-K schedules made by hand: loads that are dealt out, and compute sides that fit or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Expr, Special
from tests.schedule.fusions import LOADS, boxes, buffered, cached
from tests.schedule.relation import load_relation
from wsched.fusion import Fusion, ParallelType
from wsched.schedule import (
    Schedule,
)

CTAS = Special("nctaid.x")
ALL = (*LOADS, "T4")


def tiled(cluster: int = 1) -> Schedule:
    """Loads and accumulator as [tiles, k, Mi, Ni, Ki], in clusters [ctaN, tiles, k, ...]."""
    s = cached()
    for tv in ALL:
        boxes(s, tv)
        s.reorder(tv, {2: 1, 4: 2})
        if cluster > 1:
            s.split(tv, 1, cluster, labels=("Nc", "ctaN"))
            s.reorder(tv, {2: 0})
        s.merge(tv, int(cluster > 1), label="tiles")
    return s


def dealt(s: Schedule, shares: Expr | int = CTAS, inner_split: bool = False) -> None:
    """The loads' tiles and k to [cta, tile·k]."""
    for tv in LOADS:
        s.merge(tv, 0)
        s.split(tv, 0, shares, inner_split=inner_split, labels=("cta", "tile·k"))
        s.parallelize(tv, 0, ParallelType.BIDx)


def dealt_to_clusters(s: Schedule) -> None:
    for tv in LOADS:
        s.merge(tv, 1)
        s.split(tv, 1, CTAS // 2, inner_split=False, labels=("cluster", "tile·k"))
        s.merge(tv, 1, 0, label="cta")
        s.reorder(tv, {s.axis(tv, "cta"): 0})
        s.parallelize(tv, 0, ParallelType.BIDx)


def done(s: Schedule) -> Fusion:
    for tv in ALL:
        last = len(s.tensor(tv).loop)
        for axis in range(last - 3, last):
            kind = ParallelType.Mma if tv == "T4" else ParallelType.Bulk
            s.parallelize(tv, axis, kind)
    return buffered(s)


def turns(s: Schedule) -> None:
    s.split("T4", 0, 2, labels=("tile", "group"))
    s.parallelize("T4", 1, ParallelType.TIDy)


def rounded_tiles(s: Schedule) -> None:
    for tv in LOADS:
        s.split(tv, 0, 2, labels=("tile", "group"))
        s.merge(tv, 0)
    turns(s)
    dealt(s)


def test_cooperative(golden: object) -> None:
    s = tiled()
    dealt(s)
    assert str(load_relation(done(s))) == golden


def test_groups_in_turn(golden: object) -> None:
    s = tiled()
    turns(s)
    dealt(s)
    assert str(load_relation(done(s))) == golden


def test_tiles_that_the_loads_round_up(golden: object) -> None:
    """Shares are counted with a tile that there may not be, and end with the last one."""
    s = tiled()
    rounded_tiles(s)
    assert str(load_relation(done(s))) == golden


def test_clusters(golden: object) -> None:
    s = tiled(cluster=2)
    s.parallelize("T4", 0, ParallelType.BIDx)
    dealt_to_clusters(s)
    assert str(load_relation(done(s))) == golden


def compute_deals_tiles(s: Schedule) -> None:
    s.split("T4", 0, CTAS, labels=("tile", "cta"))
    s.reorder("T4", {1: 0})
    s.parallelize("T4", 0, ParallelType.BIDx)
    dealt(s)


def compute_splits_k(s: Schedule) -> None:
    s.split("T4", 1, 2, inner_split=False, labels=("part", "k"))
    s.parallelize("T4", 1, ParallelType.BIDz)
    dealt(s)


def compute_deals_rows(s: Schedule) -> None:
    s.split("T4", 2, 64, labels=("half", "Mi"))
    s.parallelize("T4", 2, ParallelType.BIDx)
    dealt(s)


def other_ctas_of_the_cluster(s: Schedule) -> None:
    s.parallelize("T4", 0, ParallelType.BIDy)
    dealt_to_clusters(s)


def four_shares(s: Schedule) -> None:
    dealt(s, 4)


def shares_of_four(s: Schedule) -> None:
    dealt(s, 4, inner_split=True)


def parts_beside_shares(s: Schedule) -> None:
    for tv in ALL:
        s.split(tv, 1, 2, inner_split=False, labels=("part", "k"))
        s.parallelize(tv, 1, ParallelType.BIDz)
    for tv in LOADS:
        s.reorder(tv, {1: 0})
        s.merge(tv, 1)
        s.split(tv, 1, CTAS, inner_split=False, labels=("cta", "tile·k"))
        s.parallelize(tv, 1, ParallelType.BIDx)


def columns_and_k(s: Schedule) -> None:
    """Rows of tiles are dealt out as tiles, columns and k as their steps."""
    for tv in ALL:
        s.split(tv, 0, 3, labels=("rows", "columns"))
    for tv in LOADS:
        s.merge(tv, 1)
    dealt(s)


def k_in_two_levels(s: Schedule) -> None:
    for tv in LOADS:
        s.split(tv, 1, 2, labels=("ko", "ki"))
        s.merge(tv, 0)
    dealt(s)


def steps_in_threes(s: Schedule) -> None:
    """What is rounded up is neither tiles nor k, but the steps of all tiles."""
    for tv in LOADS:
        s.merge(tv, 0)
        s.split(tv, 0, 3, labels=("three", "step"))
        s.merge(tv, 0)
        s.split(tv, 0, CTAS, inner_split=False, labels=("cta", "step"))
        s.parallelize(tv, 0, ParallelType.BIDx)


def k_in_two_levels_for_compute(s: Schedule) -> None:
    s.split("T4", 1, 3, labels=("ko", "ki"))
    dealt(s)


LEGAL: dict[str, Callable[[Schedule], None]] = {
    "four_shares": four_shares,
    "parts_beside_shares": parts_beside_shares,
    "steps_in_threes": steps_in_threes,
    "columns_and_k": columns_and_k,
    "k_in_two_levels": k_in_two_levels,
    "k_in_two_levels_for_compute": k_in_two_levels_for_compute,
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal(name: str, golden: object) -> None:
    """Shares may be cut anywhere, as long as all of them are the steps of all tiles in order."""
    s = tiled()
    LEGAL[name](s)
    assert str(load_relation(done(s))) == golden


def blocks_of_tiles(s: Schedule) -> None:
    s.split("T4", 0, 2, inner_split=False, labels=("group", "tile"))
    s.parallelize("T4", 0, ParallelType.TIDy)
    dealt(s)


def blocks_in_turns(s: Schedule) -> None:
    """The quarters of all tiles in turns: some of their turns do not exist."""
    for tv in ALL:
        s.split(tv, 0, 4, inner_split=False, labels=("group", "tile"))
    s.parallelize("T4", 0, ParallelType.TIDy)
    for tv in ALL:
        s.reorder(tv, {1: 0})
    for tv in LOADS:
        s.merge(tv, 0)
    dealt(s)


def parts_of_loads(s: Schedule) -> None:
    """What computes runs all parts of K on each of the CTAs that load one."""
    parts_beside_shares(s)
    s.parallelize("T4", 1, ParallelType.Serial)


def tiles_of_a_slice(s: Schedule) -> None:
    s.reorder("T4", {1: 0})
    for tv in LOADS:
        s.reorder(tv, {1: 0})
    dealt(s)


BOTH_SIDES = ("parallelize the loop over CTAs on both sides, leave it out of the merge",)
PLACE = "is not the place in the cluster: its CTAs take their shares of the load steps from T6"

ILLEGAL: dict[str, tuple[int, Callable[[Schedule], None], str, str, tuple[str, ...]]] = {
    "compute_deals_tiles": (
        1,
        compute_deals_tiles,
        "load-index",
        "loop cta of T4 steps the load index and runs on BIDx; only serial loops and warpgroups on "
        "TIDy or TIDz can follow it",
        BOTH_SIDES,
    ),
    "compute_splits_k": (
        1,
        compute_splits_k,
        "load-index",
        "loop part of T4 steps the load index and runs on BIDz; only serial loops and warpgroups "
        "on TIDy or TIDz can follow it",
        BOTH_SIDES,
    ),
    "compute_deals_rows": (
        1,
        compute_deals_rows,
        "load-cover",
        f"loop half [BIDx] of T4 {PLACE}",
        (),
    ),
    "other_ctas_of_the_cluster": (
        2,
        other_ctas_of_the_cluster,
        "load-cover",
        "loop ctaN [BIDy] of T4 is neither in the load index tile·k nor inside a stage: each load "
        "step would be consumed 2 times",
        ("parallelize('T4', 0, ParallelType.BIDx)",),
    ),
    "shares_of_four": (
        1,
        shares_of_four,
        "load-cover",
        "the load steps of all tiles are dealt out in ceildiv(ceildiv(M, 128) * ceildiv(N, 256) * "
        "ceildiv(K, 64), 4) shares: there are none where the sum is empty, but its tiles are "
        "computed all the same",
        ("split by %nctaid.x, inner_split=False",),
    ),
    "parts_of_loads": (
        1,
        parts_of_loads,
        "load-cover",
        "loop part [Serial] of T4 is neither in the load index tile·k nor inside a stage: each "
        "load step would be consumed 2 times",
        ("parallelize('T4', 1, ParallelType.BIDz)",),
    ),
    "tiles_of_a_slice": (
        1,
        tiles_of_a_slice,
        "load-cover",
        "the load steps of all tiles are dealt out to CTAs, but they count k, tiles, and not tiles "
        "and then what T4 sums over",
        ("merge tiles and k",),
    ),
    "blocks_of_tiles": (
        1,
        blocks_of_tiles,
        "role",
        "the load index counts k, tile, group from fastest to slowest, but warpgroups take turns "
        "tile by tile: group has to come between the tiles and the steps of a tile",
        (),
    ),
    "blocks_in_turns": (
        1,
        blocks_in_turns,
        "load-bound",
        "tiles < ceildiv(M, 128) * ceildiv(N, 256) would cut load steps out of the middle of the "
        "load loop, not off its end",
        (),
    ),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal(name: str) -> None:
    cluster, rewrite, rule, why, legal = ILLEGAL[name]
    s = tiled(cluster)
    rewrite(s)
    with pytest.raises(ScheduleError) as error:
        load_relation(done(s))
    assert (error.value.rule, error.value.why, error.value.legal) == (rule, why, legal)


def test_full_text(golden: object) -> None:
    s = tiled()
    compute_deals_rows(s)
    with pytest.raises(ScheduleError) as error:
        load_relation(done(s))
    assert str(error.value) == golden
