"""Stream-K: which load loop is a CTA's interval of steps, and its bounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.ground.expr import Const, Expr, Special, evaluate
from tests.schedule.fusions import LOADS, boxes, cached
from wsched.fusion import ParallelType
from wsched.schedule import Schedule, TransformGraph
from wsched.schedule.proof.counting import countings
from wsched.schedule.proof.interval import Interval, find_dealt_loop

CTAS = Special("nctaid.x")
LOAD = LOADS[0]


def scheduled(deal: Callable[[Schedule], None]) -> Interval | None:
    """``[Mo, k, No, Mi, Ni, Ki]`` of a load with ``deal`` done: the interval that its loop is."""
    s = cached()
    boxes(s, LOAD, (64, 64, 64))
    s.reorder(LOAD, {4: 1, 2: 2})
    deal(s)
    t = s.tensor(LOAD)
    loop = next(d for d in t.loop if d.parallel is ParallelType.Serial)
    graph = TransformGraph(s.fusion)
    found = find_dealt_loop(graph, loop, t.axis_on(ParallelType.BIDx))
    if found is None:
        return None
    (_, tiles), (_, k) = countings(graph, found.merged)
    return Interval(found, tiles, k)


def in_shares(s: Schedule) -> None:
    s.merge(LOAD, 0)
    s.split(LOAD, 0, CTAS, inner_split=False, labels=("cta", "step"))
    s.parallelize(LOAD, 0, ParallelType.BIDx)


def in_shares_of_pairs(s: Schedule) -> None:
    s.merge(LOAD, 0)
    s.split(LOAD, 0, CTAS // 2, inner_split=False, labels=("cluster", "step"))
    s.split(LOAD, 2, 2, labels=("No", "two"))
    s.merge(LOAD, 0, 3, label="cta")
    s.parallelize(LOAD, 0, ParallelType.BIDx)


def every_so_many(s: Schedule) -> None:
    s.merge(LOAD, 0)
    s.split(LOAD, 0, CTAS, labels=("step", "cta"))
    s.parallelize(LOAD, 1, ParallelType.BIDx)


def of_one_dimension(s: Schedule) -> None:
    s.split(LOAD, 0, CTAS, inner_split=False, labels=("cta", "step"))
    s.parallelize(LOAD, 0, ParallelType.BIDx)


def on_no_ctas(s: Schedule) -> None:
    s.merge(LOAD, 0)
    s.split(LOAD, 0, CTAS, inner_split=False, labels=("step", "rest"))


@pytest.mark.parametrize("deal", [every_so_many, of_one_dimension, on_no_ctas])
def test_no_interval(deal: Callable[[Schedule], None]) -> None:
    assert scheduled(deal) is None


def env(cta: int, ctas: int, m: int, k: int) -> dict[str, int]:
    return {"%ctaid.x": cta, "%nctaid.x": ctas, "M": 64 * m, "K": 64 * k, "N": 64}


def found(interval: Interval | None, *exprs: str) -> Callable[..., list[list[int]]]:
    """Members of an interval, CTA by CTA, of ``ctas`` with ``m`` rows of tiles and ``k`` steps."""
    assert interval is not None
    values: list[Expr] = [getattr(interval, name) for name in exprs]

    def of(ctas: int, m: int, k: int) -> list[list[int]]:
        return [[evaluate(e, env(cta, ctas, m, k)) for e in values] for cta in range(ctas)]

    return of


def test_shares_are_taken_from_the_last_to_the_first() -> None:
    """7 steps on 3 CTAs: 3, 3 and 1, the first one with CTA 2."""
    interval = scheduled(in_shares)
    assert interval is not None
    assert (interval.size, interval.label) == (1, "Mo·k")
    bounds = found(interval, "start", "stop", "first", "count")
    assert bounds(3, 7, 1) == [[6, 7, 6, 1], [3, 6, 3, 3], [0, 3, 0, 3]]
    # 2 tiles of 3 steps on 4 CTAs, 2 each: the second share has the end of a tile and the next.
    assert bounds(4, 2, 3) == [[6, 6, 2, 0], [4, 6, 1, 1], [2, 4, 0, 2], [0, 2, 0, 1]]


def test_shares_of_tiles_that_are_rounded_up() -> None:
    """7 rows in pairs are 8, and 3 CTAs have 3 of those each; the last one ends with the seventh.

    What the loads then split and merge again is the same share.
    """

    def in_pairs(s: Schedule) -> None:
        s.split(LOAD, 0, 2, labels=("pair", "Mo"))
        s.merge(LOAD, 0)
        in_shares(s)
        s.split(LOAD, 1, 4, labels=("so", "si"))
        s.merge(LOAD, 1)

    interval = scheduled(in_pairs)
    bounds = found(interval, "share", "start", "stop")
    assert bounds(3, 7, 1) == [[3, 6, 7], [3, 3, 6], [3, 0, 3]]
    assert bounds(4, 5, 1) == [[2, 5, 5], [2, 4, 5], [2, 2, 4], [2, 0, 2]]


def test_a_cluster_has_one_share() -> None:
    interval = scheduled(in_shares_of_pairs)
    assert interval is not None and interval.size == 2
    assert found(interval, "start", "stop")(4, 3, 1) == [[2, 3], [2, 3], [0, 2], [0, 2]]


def test_tiles_of_an_empty_sum_have_an_owner_and_nothing_to_load() -> None:
    bounds = found(scheduled(in_shares), "start", "stop", "load_stop", "count")
    assert bounds(2, 3, 0) == [[2, 3, 2, 1], [0, 2, 0, 2]]


def test_shares_of_steps_that_are_rounded_up() -> None:
    """A tile of 4 steps is counted as two threes, so 2 tiles on 5 CTAs are shares of 3 places: the
    last two places of each tile are nothing.
    """

    def in_threes(s: Schedule) -> None:
        s.split(LOAD, 1, 3, labels=("three", "k"))
        s.merge(LOAD, 1)
        in_shares(s)

    interval = scheduled(in_threes)
    bounds = found(interval, "share", "start", "stop", "first", "count")
    assert bounds(5, 2, 4) == [
        [3, 8, 8, 2, 0], [3, 7, 8, 1, 1], [3, 4, 7, 1, 1], [3, 3, 4, 0, 1], [3, 0, 3, 0, 1]
    ]  # fmt: skip
    assert interval is not None
    shares = [evaluate(interval.share_of(Const(step)), env(0, 5, 2, 4)) for step in range(8)]
    assert shares == [0, 0, 0, 1, 2, 2, 2, 3]
