"""Tiles that are dealt out at run time: what a queue can deal out, and why it cannot the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import LOADS, boxes, buffered, cached, split_tile
from tests.schedule.relation import load_relation
from wsched.fusion import ParallelType
from wsched.schedule import FromQueue, Schedule
from wsched.schedule.primitives.factor import CTAS

Make = Callable[[Schedule, str], None]


def all_tiles(s: Schedule, tv: str) -> None:
    s.merge(tv, 0, label="tiles")


def scheduled(order: str, make: Make = all_tiles, dealt: str = "tiles", most: int = 0) -> Schedule:
    """``[order, Mi, Ni, Ki]`` of both loads and the accumulator; the loads' loops are not merged.

    Args:
        order: loops left of the box.
        make: from ``[Mo, No, k, Mi, Ni, Ki]`` to a loop ``dealt``.
        dealt: what is dealt out at run time, into ``tile cta``.
        most: how many of them a CTA gets, as far as there are any; 0 where the grid says how many.
    """
    s = cached()
    for tv in (*LOADS, "T4"):
        boxes(s, tv)
        s.reorder(tv, {2: 1, 4: 2})
        make(s, tv)
        s.split(
            tv, s.axis(tv, dealt), most or CTAS,
            inner_split=not most, labels=("tile", "cta"), dynamic=True,
        )  # fmt: skip
        s.reorder(tv, {s.axis(tv, label): n for n, label in enumerate(order.split())})
        s.parallelize(tv, s.axis(tv, "cta"), ParallelType.BIDx)
        for label in ("Mi", "Ni", "Ki"):
            box = ParallelType.Mma if tv == "T4" else ParallelType.Bulk
            s.parallelize(tv, s.axis(tv, label), box)
    return s


def one_load_loop(s: Schedule) -> None:
    """All serial loops of the loads but the box become one."""
    for tv in LOADS:
        serial = [n for n, d in enumerate(s.tensor(tv).loop) if d.parallel is ParallelType.Serial]
        for _ in serial[1:]:
            s.merge(tv, serial[0])


def tile_in_threes(s: Schedule) -> None:
    split_tile(s, ("T4",), 3)


def k_in_threes(s: Schedule) -> None:
    s.split("T4", s.axis("T4", "k"), 3, labels=("ko", "ki"))


@pytest.mark.parametrize("split", [tile_in_threes, k_in_threes])
def test_what_only_compute_splits(split: Callable[[Schedule], None], golden: object) -> None:
    """One predicate ends both sides, in whatever loops compute counts its tiles."""
    s = scheduled("cta tile k")
    split(s)
    one_load_loop(s)
    r = load_relation(buffered(s))
    assert isinstance(r.work, FromQueue) and r.work.group.label == "tiles"
    assert str(r) == golden


def rows(s: Schedule, tv: str) -> None:
    """Rows of tiles are dealt out; a CTA goes along all columns, or has one."""


def columns_on_y(s: Schedule, tv: str) -> None:
    s.parallelize(tv, s.axis(tv, "No"), ParallelType.BIDy)


def pairs(s: Schedule, tv: str) -> None:
    """The last pair may be half a one."""
    s.merge(tv, 0, label="tiles")
    s.split(tv, 0, 2, labels=("pairs", "two"))
    s.parallelize(tv, s.axis(tv, "two"), ParallelType.BIDy)


def refused(s: Schedule) -> str:
    one_load_loop(s)
    with pytest.raises(ScheduleError) as error:
        load_relation(buffered(s))
    assert error.value.rule == "load-bound"
    return str(error.value)


REFUSED: dict[str, tuple[str, Make, str]] = {
    "outside": ("cta No tile k", rows, "Mo"),
    "beside": ("cta No tile k", columns_on_y, "Mo"),
    "half a pair": ("cta two tile k", pairs, "pairs"),
}
"""Loops, what makes them, what is dealt out."""


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: object) -> None:
    assert refused(scheduled(*REFUSED[name])) == golden


def test_rows_with_all_their_columns(golden: object) -> None:
    """They end with the matrix; at run time nobody but the queue knows when."""
    s = scheduled("cta tile No k", rows, "Mo")
    one_load_loop(s)
    r = load_relation(buffered(s))
    assert isinstance(r.work, FromQueue)
    assert str(r) == golden


def columns_too(s: Schedule, tv: str) -> None:
    """Columns are dealt out to CTAs along y, beside rows along x."""
    s.split(tv, s.axis(tv, "No"), 4, labels=("column", "ctaN"), dynamic=True)
    s.parallelize(tv, s.axis(tv, "ctaN"), ParallelType.BIDy)


def test_only_one_split_deals_out() -> None:
    (text, *_) = refused(scheduled("cta ctaN tile column k", columns_too, "Mo")).splitlines()
    assert text.endswith(
        "No are dealt out at run time to ctaN: that takes one split of the tiles of all CTAs, "
        "whose inner part runs on them"
    )


def test_tiles_that_no_load_loop_counts(golden: object) -> None:
    s = scheduled("cta tile k")
    for tv in (*LOADS, "T4"):
        s.parallelize(tv, 1, ParallelType.BIDy)
    assert refused(s) == golden


def test_a_tile_for_each_warpgroup(golden: object) -> None:
    """A CTA has two at most: the second warpgroup may have none, and would not ask."""
    s = scheduled("cta tile k", most=2)
    s.parallelize("T4", s.axis("T4", "tile"), ParallelType.TIDy)
    assert refused(s) == golden
