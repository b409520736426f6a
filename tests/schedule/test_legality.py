"""The relation between load and compute side: what is legal, and every refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lowering.errors import ScheduleError
from lowering.ir.expr import Special, evaluate
from tests.schedule.fusions import (
    CLASSES,
    COOPERATIVE,
    NON_PERSISTENT,
    ON_TIDY,
    PING_PONG,
    buffered,
    linear,
    tiled,
)
from wsched.fusion import ParallelType, Pipelined, WarpSpecialized
from wsched.schedule import ClusterDims, Schedule, load_relation, schedule_matmul

LOADS = ("T6", "T7")


def split_tile(s: Schedule, tensors: tuple[str, ...], factor: int) -> None:
    """[cta, tile, k, ...] to [cta, tile, group, k, ...]."""
    for tv in tensors:
        s.split(tv, 1, factor, labels=("tile", "group"))


def test_cooperative() -> None:
    r = load_relation(schedule_matmul(linear(), COOPERATIVE))
    assert (r.loads, r.compute, r.roles) == (LOADS, "T4", 2)
    assert (r.cooperative, r.warp_specialized, r.role) == (True, True, None)
    assert [(s.domain.label, str(s.coefficient)) for s in r.steps] == [
        ("tile", "ceildiv(K, 64)"),
        ("k", "1"),
    ]
    assert r.tail is not None
    assert str(r.tail.serial_stop) == (
        "ceildiv(max(ceildiv(M, 128) * ceildiv(N, 256) - %ctaid.x, 0), %nctaid.x)"
    )
    assert str(r.load_stop) == f"{r.tail.serial_stop} * ceildiv(K, 64)"


def test_ping_pong() -> None:
    r = load_relation(schedule_matmul(linear(), PING_PONG))
    assert (r.cooperative, r.roles) == (False, 2)
    assert [(s.domain.label, str(s.coefficient), s.role) for s in r.steps] == [
        ("tile", "ceildiv(K, 64) * 2", False),
        ("group", "ceildiv(K, 64)", True),
        ("k", "1", False),
    ]
    assert r.tail is not None and r.tail.serial_stop is not None and r.role is not None
    # 5 tiles on 2 CTAs: CTA 0 has 3 of them, 2 for group 0 and 1 for group 1; CTA 1 has one each.
    env = {"M": 128 * 5, "N": 128, "K": 256, "%nctaid.x": 2}
    stops = {
        (cta, group): evaluate(r.tail.serial_stop, {**env, "%ctaid.x": cta, r.role.var.name: group})
        for cta in (0, 1)
        for group in (0, 1)
    }
    assert stops == {(0, 0): 2, (0, 1): 1, (1, 0): 1, (1, 1): 1}
    assert [evaluate(r.load_stop, {**env, "%ctaid.x": cta}) for cta in (0, 1)] == [12, 8]


def test_idle_group_and_idle_cta() -> None:
    r = load_relation(schedule_matmul(linear(), PING_PONG))
    assert r.tail is not None and r.tail.serial_stop is not None and r.role is not None
    env = {"M": 1, "N": 1, "K": 64, "%nctaid.x": 4}
    for cta, stop in ((0, 1), (1, 0), (3, 0)):
        assert evaluate(r.load_stop, {**env, "%ctaid.x": cta}) == stop
    group_one = {**env, "%ctaid.x": 0, r.role.var.name: 1}
    assert evaluate(r.tail.serial_stop, group_one) == 0


def test_non_persistent() -> None:
    r = load_relation(schedule_matmul(linear(), NON_PERSISTENT))
    assert [s.domain.label for s in r.steps] == ["k"]
    assert r.tail is None
    assert str(r.load_stop) == "ceildiv(K, 64)"


def test_pipelined() -> None:
    r = load_relation(schedule_matmul(linear(), CLASSES["pipelined"]))
    assert (r.warp_specialized, r.cooperative, r.roles) == (False, True, 2)


def test_cluster() -> None:
    r = load_relation(schedule_matmul(linear(), replace(COOPERATIVE, cluster_dims=ClusterDims(2))))
    assert r.tail is not None
    assert str(r.tail.index) == "%ctaid.x // 2 + %nctaid.x // 2 * i66"
    # 3 rows of tiles are 2 rows of clusters; 2 clusters of 2 CTAs take one column each.
    env = {"M": 128 * 3, "N": 256, "K": 64, "%nctaid.x": 4}
    assert [evaluate(r.load_stop, {**env, "%ctaid.x": cta}) for cta in range(4)] == [1] * 4


def test_compute_may_split_further() -> None:
    """The load side keeps one tile loop; compute deals its tiles out to two warpgroups."""
    s = tiled()
    split_tile(s, ("T4",), 2)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
    r = load_relation(buffered(s))
    assert [str(x.coefficient) for x in r.steps] == ["ceildiv(K, 64) * 2", "ceildiv(K, 64)", "1"]


def reversed_order(s: Schedule) -> None:
    for tv in LOADS:
        s.merge(tv, 2, 1)
        s.reorder(tv, {1: 1})


def different_factors(s: Schedule) -> None:
    split_tile(s, LOADS, 2)
    split_tile(s, ("T4",), 3)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)


def group_below_k(s: Schedule) -> None:
    split_tile(s, (*LOADS, "T4"), 2)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1, 3)
        s.merge(tv, 1, 2)


def role_not_in_the_load(s: Schedule) -> None:
    split_tile(s, (*LOADS, "T4"), 2)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.parallelize(tv, 2, ParallelType.TIDz)
        s.merge(tv, 1, 3)


def unrolled_tiles(s: Schedule) -> None:
    for tv in LOADS:
        s.merge(tv, 1)
    s.parallelize("T4", 1, ParallelType.Unroll)


def other_ctas(s: Schedule) -> None:
    for tv in LOADS:
        s.merge(tv, 1)
    s.parallelize("T4", 0, ParallelType.BIDy)


def no_cta_on_compute(s: Schedule) -> None:
    for tv in LOADS:
        s.merge(tv, 1)
    s.parallelize("T4", 0, ParallelType.Serial)


def load_merges_ctas(s: Schedule) -> None:
    for tv in LOADS:
        s.parallelize(tv, 0, ParallelType.Serial)
        s.merge(tv, 1, 0)
        s.merge(tv, 0)


def two_tile_loops(s: Schedule) -> None:
    for tv in (*LOADS, "T4"):
        s.split(tv, 1, 3, labels=("tileo", "tilei"))
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)


def overlapping_k(s: Schedule) -> None:
    s.split("T4", 2, 3, labels=("ko", "ki"))
    for tv in LOADS:
        s.merge(tv, 1)


def regrouped_tiles(s: Schedule) -> None:
    for tv in (*LOADS, "T4"):
        s.split(tv, 1, 2)
        s.merge(tv, 1)
        s.split(tv, 1, 3)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)


TILES = "ceildiv(M, 128) * ceildiv(N, 256)"

ILLEGAL: dict[str, tuple[Callable[[Schedule], None], str, str, tuple[str, ...]]] = {
    "reversed_order": (
        reversed_order,
        "load-order",
        "the load index counts tile, k from fastest to slowest, T4 nests them otherwise: it would "
        "want a stage before it is loaded",
        ("merge the load loops as tile·k",),
    ),
    "different_factors": (
        different_factors,
        "load-index",
        "the load index tile·group·k = ((i52 * 3 + i53) // 2 * 2 + (i52 * 3 + i53) % 2) * "
        "ceildiv(K, 64) + i39 is no sum of multiples of the loops of T4",
        ("split both sides by the same factors",),
    ),
    "group_below_k": (
        group_below_k,
        "load-bound",
        f"tiles < {TILES} would cut load steps out of the middle of the load loop, not off its end",
        ("merge the load loops with k innermost",),
    ),
    "role_not_in_the_load": (
        role_not_in_the_load,
        "load-cover",
        "loop group [TIDy] of T4 is neither in the load index tile·k nor inside a stage: each load "
        "step would be consumed 2 times",
        (),
    ),
    "unrolled_tiles": (
        unrolled_tiles,
        "load-index",
        "loop tile of T4 steps the load index and runs on Unroll; only serial loops and TIDy can "
        "follow it",
        (),
    ),
    "other_ctas": (
        other_ctas,
        "load-cover",
        "loop cta [BIDx] of T6 is no loop of T4 on the same CTAs",
        (),
    ),
    "no_cta_on_compute": (
        no_cta_on_compute,
        "load-cover",
        "loop cta [Serial] of T4 is neither in the load index tile·k nor inside a stage: each load "
        "step would be consumed %nctaid.x times",
        (),
    ),
    "load_merges_ctas": (
        load_merges_ctas,
        "load-index",
        "the load index tile·cta·k = (i46 * %nctaid.x + %ctaid.x) * ceildiv(K, 64) + i39 starts at "
        "%ctaid.x * ceildiv(K, 64), not at 0",
        ("parallelize the loop over CTAs on both sides, leave it out of the merge",),
    ),
    "two_tile_loops": (
        two_tile_loops,
        "load-bound",
        f"tiles < {TILES} ends two loops early: tilei and tileo",
        (),
    ),
    "overlapping_k": (
        overlapping_k,
        "load-cover",
        "the load steps are not covered exactly once: a loop must step by "
        "ceildiv(ceildiv(K, 64), 3) * 3, but there is ceildiv(K, 64) * tile",
        (),
    ),
    "regrouped_tiles": (
        regrouped_tiles,
        "load-bound",
        f"tiles < {TILES} does not follow from the load index",
        (),
    ),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal(name: str) -> None:
    rewrite, rule, why, legal = ILLEGAL[name]
    s = tiled()
    rewrite(s)
    with pytest.raises(ScheduleError) as error:
        load_relation(buffered(s))
    assert (error.value.rule, error.value.why, error.value.legal) == (rule, why, legal)


def test_full_text_shows_both_nests(golden: object) -> None:
    s = tiled()
    reversed_order(s)
    with pytest.raises(ScheduleError) as error:
        load_relation(buffered(s))
    assert str(error.value) == golden


def merged(strided: bool = True) -> Schedule:
    s = tiled(strided=strided)
    for tv in LOADS:
        s.merge(tv, 1)
    return s


def test_neighbouring_tiles() -> None:
    r = load_relation(buffered(merged(strided=False)))
    assert r.tail is not None
    share = "ceildiv(ceildiv(M, 128) * ceildiv(N, 256), %nctaid.x)"
    assert str(r.tail.index) == f"%ctaid.x * {share} + i47"
    env = {"M": 128 * 5, "N": 256, "K": 64, "%nctaid.x": 3}
    assert [evaluate(r.load_stop, {**env, "%ctaid.x": cta}) for cta in range(3)] == [2, 2, 1]


def test_two_tails() -> None:
    s = tiled(strided=False)
    split_tile(s, (*LOADS, "T4"), 2)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)
    with pytest.raises(ScheduleError) as error:
        load_relation(buffered(s))
    assert (error.value.rule, error.value.why) == (
        "load-bound",
        "tile and tiles end early independently of each other",
    )


def test_every_load_is_buffered() -> None:
    s = merged()
    s.circular_buffer("T6", 4, 2, ON_TIDY)
    with pytest.raises(ScheduleError) as error:
        load_relation(s.fusion)
    assert (error.value.rule, error.value.why) == (
        "circular-buffer",
        "every TMA cacheAfter tensor is circular-buffered; T7 is not",
    )
    with pytest.raises(ScheduleError) as error:
        load_relation(linear())
    assert str(error.value) == (
        "ScheduleError[circular-buffer]: no circular_buffer: no tensor is loaded by TMA: "
        "cache_after the operands of the mma"
    )


def test_loads_are_buffered_alike() -> None:
    s = merged()
    s.circular_buffer("T6", 4, 2, ON_TIDY)
    s.circular_buffer("T7", 3, 2, ON_TIDY)
    with pytest.raises(ScheduleError) as error:
        load_relation(s.fusion)
    assert (error.value.rule, error.value.why) == (
        "circular-buffer",
        "the operands of one mma are circular-buffered alike, these are not",
    )
    assert error.value.legal == (
        "circular_buffer('T7', 4, 2, WarpSpecialized(on=ParallelType.TIDy, num_registers=None, "
        "stage_slice_position=None))",
    )


def test_loads_share_one_loop() -> None:
    s = tiled()
    s.merge("T6", 1)
    s.merge("T7", 2, 1)
    with pytest.raises(ScheduleError) as error:
        load_relation(buffered(s))
    assert (error.value.rule, error.value.why) == (
        "load-loop",
        "T6 and T7 fill one stage together, but their loops left of the stage differ: "
        "cta [BIDx], tile·k [Serial] and cta [BIDx], k·tile [Serial]",
    )


def test_pipelined_loads_leave_nobody_out() -> None:
    s = tiled()
    split_tile(s, (*LOADS, "T4"), 2)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)
        s.circular_buffer(tv, 4, 2, Pipelined())
    with pytest.raises(ScheduleError) as error:
        load_relation(s.fusion)
    assert (error.value.rule, error.value.why, error.value.legal) == (
        "role",
        "group deals load steps out to warpgroups that also load: without a load warpgroup all of "
        "them take part in every step",
        ("WarpSpecialized(ParallelType.TIDy)",),
    )


def test_number_of_warpgroups_is_a_constant() -> None:
    s = tiled()
    for tv in (*LOADS, "T4"):
        s.split(tv, 1, Special("nctaid.x"), labels=("tile", "group"))
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)
    with pytest.raises(ScheduleError) as error:
        load_relation(buffered(s))
    assert (error.value.rule, error.value.why) == (
        "role",
        "the number of warpgroups %nctaid.x is not a constant",
    )


def test_register_pair_must_fit_the_pool() -> None:
    s = merged()
    s.parallelize("T4", 3, ParallelType.Serial)
    s.split("T4", 3, 64, labels=("group", "Mi"))
    s.parallelize("T4", 3, ParallelType.TIDy)
    for tv in LOADS:
        s.circular_buffer(tv, 4, 2, WarpSpecialized(ParallelType.TIDy, (40, 240)))
    with pytest.raises(ScheduleError) as error:
        load_relation(s.fusion)
    assert (error.value.rule, error.value.why) == (
        "registers",
        "num_registers 40/240 needs 66560 registers for 1 load and 2 compute warpgroups, the CTA "
        "has 384 * 168 = 64512",
    )
