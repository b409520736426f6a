"""Illegal relations between load and compute side: one schedule for each refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Special
from tests.schedule.fusions import (
    LOADS,
    ON_TIDY,
    PING_PONG,
    buffered,
    linear,
    merged,
    split_tile,
    tiled,
)
from tests.schedule.relation import load_relation
from wsched.fusion import Fusion, ParallelType, Pipelined, WarpSpecialized
from wsched.schedule import (
    Schedule,
    plan_matmul,
)
from wsched.schedule.proof import roles


def reversed_order(s: Schedule) -> None:
    for tv in LOADS:
        s.merge(tv, 2, 1)
        s.reorder(tv, {1: 1})


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


def parts_along_y(s: Schedule) -> None:
    """CTAs along y load a part of K each."""
    for tv in (*LOADS, "T4"):
        s.split(tv, 2, 2, inner_split=False, labels=("part", "k"))
    for tv in LOADS:
        s.parallelize(tv, 2, ParallelType.BIDy)
        s.reorder(tv, {2: 1})
        s.merge(tv, 2)


def load_merges_ctas(s: Schedule) -> None:
    for tv in LOADS:
        s.parallelize(tv, 0, ParallelType.Serial)
        s.merge(tv, 1, 0)
        s.merge(tv, 0)


TILES = "ceildiv(M, 128) * ceildiv(N, 256)"

ILLEGAL: dict[str, tuple[Callable[[Schedule], None], str, str, tuple[str, ...]]] = {
    "reversed_order": (
        reversed_order,
        "load-order",
        "the load index counts tile, k from fastest to slowest, T4 nests them otherwise: it would "
        "want a stage before it is loaded",
        ("merge the load loops as tile·k",),
    ),
    "group_below_k": (
        group_below_k,
        "load-bound",
        f"tiles < {TILES} would cut load steps out of the middle of the load loop, not off its end",
        ("merge the load loops as tile·group·k",),
    ),
    "role_not_in_the_load": (
        role_not_in_the_load,
        "load-cover",
        "loop group [TIDz] of T6 is no loop of T4 on the same CTAs",
        (),
    ),
    "unrolled_tiles": (
        unrolled_tiles,
        "load-index",
        "loop tile of T4 steps the load index and runs on Unroll; only serial loops and warpgroups "
        "on TIDy or TIDz can follow it",
        (),
    ),
    "other_ctas": (
        other_ctas,
        "load-cover",
        "loop cta [BIDx] of T6 is no loop of T4 on the same CTAs",
        ("parallelize('T4', 0, ParallelType.BIDx)",),
    ),
    "no_cta_on_compute": (
        no_cta_on_compute,
        "load-cover",
        "loop cta [BIDx] of T6 is no loop of T4 on the same CTAs",
        ("parallelize('T4', 0, ParallelType.BIDx)",),
    ),
    "parts_along_y": (
        parts_along_y,
        "load-cover",
        "loop part [BIDy] of T6 is no loop of T4 on the same CTAs",
        ("parallelize part on BIDz on both sides",),
    ),
    "load_merges_ctas": (
        load_merges_ctas,
        "load-index",
        "loop cta of T4 steps the load index and runs on BIDx; only serial loops and warpgroups on "
        "TIDy or TIDz can follow it",
        ("parallelize the loop over CTAs on both sides, leave it out of the merge",),
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


def test_every_load_is_buffered() -> None:
    s = merged()
    s.circular_buffer("T6", 4, 2, ON_TIDY)
    with pytest.raises(ScheduleError) as error:
        load_relation(s.fusion)
    assert (error.value.rule, error.value.why) == (
        "ring",
        "every TMA cacheAfter tensor is circular-buffered; T7 is not",
    )
    with pytest.raises(ScheduleError) as error:
        load_relation(merged().fusion)
    assert error.value.why == "every TMA cacheAfter tensor is circular-buffered; T6, T7 are not"
    with pytest.raises(ScheduleError) as error:
        load_relation(linear())
    assert str(error.value) == (
        "ScheduleError[ring]: no circular_buffer: no tensor is loaded by TMA: "
        "cache_after the operands of the mma"
    )


def test_loads_are_buffered_alike() -> None:
    s = merged()
    s.circular_buffer("T6", 4, 2, ON_TIDY)
    s.circular_buffer("T7", 3, 2, ON_TIDY)
    with pytest.raises(ScheduleError) as error:
        load_relation(s.fusion)
    assert (error.value.rule, error.value.why) == (
        "ring",
        "the operands of one mma are circular-buffered alike, these are not",
    )
    assert error.value.legal == (
        "circular_buffer('T7', 4, 2, WarpSpecialized(on=ParallelType.TIDy))",
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


def test_loads_that_count_the_same_share_their_loop() -> None:
    """One goes through pairs of tiles, the other one takes them as they come."""
    s = tiled()
    split_tile(s, ("T6",), 2)
    s.merge("T6", 1)
    for tv in LOADS:
        s.merge(tv, 1)
    assert [n.group.label for n in load_relation(buffered(s)).nest] == ["tile", "k"]


def turns_of_warps_that_load() -> Fusion:
    s = tiled()
    split_tile(s, (*LOADS, "T4"), 2)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)
        s.circular_buffer(tv, 4, 2, Pipelined())
    return s.fusion


def test_pipelined_loads_leave_nobody_out() -> None:
    with pytest.raises(ScheduleError) as error:
        load_relation(turns_of_warps_that_load())
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


def with_registers(groups: int, pair: tuple[int, int]) -> Fusion:
    """The rows of a tile dealt out to ``groups`` warpgroups, all of which take every load step."""
    s = merged()
    s.parallelize("T4", 3, ParallelType.Serial)
    s.split("T4", 3, 128 // groups, labels=("group", "Mi"))
    s.parallelize("T4", 3, ParallelType.TIDy)
    for tv in LOADS:
        s.circular_buffer(tv, 4, 2, WarpSpecialized(ParallelType.TIDy, pair))
    return s.fusion


@pytest.mark.parametrize(
    ("groups", "pair", "why", "legal"),
    [
        (
            2,
            (40, 240),
            "128 x 40 + 256 x 240 = 66560 registers, the CTA has 384 x 168 = 64512",
            ("num_registers=(24, 240)", "num_registers=(40, 232)"),
        ),
        (
            4,
            (24, 88),
            "24 and 88 must lie on either side of the 96 registers that 640 threads start with",
            ("num_registers=(32, 112)", "num_registers=(40, 104)"),
        ),
        (
            1,
            (40, 232),
            "40 and 232 must lie on either side of the 248 registers that 256 threads start with",
            ("num_registers=None",),
        ),
    ],
)
def test_register_pair(
    groups: int, pair: tuple[int, int], why: str, legal: tuple[str, ...]
) -> None:
    with pytest.raises(ScheduleError) as error:
        load_relation(with_registers(groups, pair))
    assert (error.value.rule, error.value.why, error.value.legal) == ("registers", why, legal)


def test_registers_of_two_warpgroups_that_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pair is offered: those that are listed are of one."""
    monkeypatch.setattr(roles, "warpgroups_that_load", lambda *_: 2)
    with pytest.raises(ScheduleError) as error:
        load_relation(with_registers(2, (40, 240)))
    assert error.value.why == (
        "256 x 40 + 256 x 240 = 71680 registers, the CTA has 512 x 128 = 65536"
    )
    assert error.value.legal == ("num_registers=None",)


@pytest.mark.parametrize(("groups", "pair"), [(2, (40, 232)), (2, (24, 240)), (4, (40, 104))])
def test_register_pairs_that_fit(groups: int, pair: tuple[int, int]) -> None:
    assert load_relation(with_registers(groups, pair)).warpgroups.count >= groups


@pytest.mark.parametrize(
    ("which", "what"),
    [
        (("tile", "group"), "tile are dealt out at run time to group"),
        (("Mo", "Mi"), "M are dealt out at run time to Mi"),
    ],
)
def test_dealt_out_to_others_than_ctas(
    monkeypatch: pytest.MonkeyPatch, which: tuple[str, str], what: str
) -> None:
    split = Schedule.split

    def other(self: Schedule, *where: Any, **how: Any) -> None:
        split(self, *where, **how | {"dynamic": how["labels"] == which})

    monkeypatch.setattr(Schedule, "split", other)
    with pytest.raises(ScheduleError) as error:
        plan_matmul(linear(), PING_PONG)
    assert (error.value.rule, error.value.why) == (
        "load-bound",
        f"{what}: that takes one split of the tiles of all CTAs, whose inner part runs on them",
    )
