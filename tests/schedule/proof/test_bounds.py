"""Loops that end early: what exists runs on both sides, whichever of them splits it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import evaluate
from tests.schedule.fusions import LOADS, boxes, buffered, cached, merged, split_tile, tiled
from tests.schedule.relation import load_relation
from wsched.fusion import ParallelType
from wsched.schedule import (
    LoadRelation,
    Schedule,
)


def stops(r: LoadRelation) -> dict[str, str]:
    """Bounds of compute's loops by label, slowest first."""
    return {s.domain.label: str(s.stop) for s in r.digits}


def nest(r: LoadRelation) -> dict[str, tuple[str, str]]:
    """Weights and bounds of the load nest by label, slowest first."""
    return {n.group.label: (str(n.weight), str(n.stop)) for n in r.nest}


TILES = "ceildiv(M, 128) * ceildiv(N, 256)"
LEFT = f"max({TILES} - %ctaid.x, 0)"
MINE = f"ceildiv({LEFT}, %nctaid.x)"


def two_levels_of_k(s: Schedule) -> None:
    s.split("T4", 2, 3, labels=("ko", "ki"))
    for tv in LOADS:
        s.merge(tv, 1)


def test_k_split_on_one_side() -> None:
    """The load loop counts k as it is; compute's inner loop ends with it."""
    s = tiled()
    two_levels_of_k(s)
    r = load_relation(buffered(s))
    assert nest(r) == {"tile": ("ceildiv(K, 64)", MINE), "k": ("1", "ceildiv(K, 64)")}
    assert stops(r) == {
        "tile": MINE,
        "ko": "ceildiv(ceildiv(K, 64), 3)",
        "ki": "min(max(ceildiv(K, 64) - i48 * 3, 0), 3)",
    }
    assert r.tail is not None and r.tail.ended == {r.digits[0].var}
    assert str(r).splitlines()[-2:] == [
        f"  while %ctaid.x + %nctaid.x * i46 < {TILES}",
        "  i49 < min(max(ceildiv(K, 64) - i48 * 3, 0), 3)",
    ]


def test_different_factors() -> None:
    """Pairs of tiles on one side, three warpgroups on the other: both count the CTA's tiles."""
    s = tiled()
    split_tile(s, LOADS, 2)
    split_tile(s, ("T4",), 3)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)
    r = load_relation(buffered(s))
    assert list(nest(r)) == ["tile", "k"]
    stop = f"ceildiv(max({TILES} - (%ctaid.x + %nctaid.x * i53), 0), %nctaid.x * 3)"
    assert stops(r) == {"tile": stop, "group": "3", "k": "ceildiv(K, 64)"}


def test_two_tile_loops() -> None:
    s = tiled()
    for tv in (*LOADS, "T4"):
        s.split(tv, 1, 3, labels=("tileo", "tilei"))
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)
    r = load_relation(buffered(s))
    assert list(nest(r)) == ["tile", "k"]
    left = f"max({TILES} - (%ctaid.x + %nctaid.x * (i52 * 3)), 0)"
    assert stops(r) == {
        "tileo": f"ceildiv({LEFT}, %nctaid.x * 3)",
        "tilei": f"min(ceildiv({left}, %nctaid.x), 3)",
        "k": "ceildiv(K, 64)",
    }


def test_neighbouring_tiles_in_turn() -> None:
    """A share of tiles ends with the last tile, and with itself."""
    s = tiled(strided=False)
    split_tile(s, (*LOADS, "T4"), 2)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)
    r = load_relation(buffered(s))
    assert r.tail is not None and r.tail.ended == {r.digits[0].var} and len(r.roles) == 1
    # 7 tiles on 2 CTAs: 4 and 3, of which group 0 takes 2 each.
    env = {"M": 128 * 7, "N": 256, "K": 64, "%nctaid.x": 2}
    found = {
        (cta, group): evaluate(
            r.digits[0].stop, {**env, "%ctaid.x": cta, r.roles[0].var.name: group}
        )
        for cta in (0, 1)
        for group in (0, 1)
    }
    assert found == {(0, 0): 2, (0, 1): 2, (1, 0): 2, (1, 1): 1}
    assert [evaluate(r.load_stop, {**env, "%ctaid.x": cta}) for cta in (0, 1)] == [4, 3]


def test_tiles_in_pairs_and_in_triples() -> None:
    """Pairs merged again, with the one that a split added; then triples: one count all along."""
    s = tiled()
    for tv in (*LOADS, "T4"):
        s.split(tv, 1, 2)
        s.merge(tv, 1)
        s.split(tv, 1, 3, labels=("tile", "group"))
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)
    r = load_relation(buffered(s))
    assert nest(r) == {"tileo·tilei": ("ceildiv(K, 64)", MINE), "k": ("1", "ceildiv(K, 64)")}
    left = f"max({TILES} - (%ctaid.x + %nctaid.x * {r.digits[1].var}), 0)"
    assert stops(r)["tile"] == f"ceildiv({left}, %nctaid.x * 3)"


def rows(factor: int, loads: bool) -> LoadRelation:
    """CTAs along N, rows of tiles in turn; ``factor`` warpgroups take turns with them."""
    s = cached()
    for tv in (*LOADS, "T4"):
        boxes(s, tv)
        s.reorder(tv, {2: 0, 0: 1, 4: 2})
        s.parallelize(tv, 0, ParallelType.BIDx)
    split_tile(s, (*LOADS, "T4") if loads else ("T4",), factor)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        for _ in range(1 + loads):
            s.merge(tv, 1)
        for axis in range(2, 5):
            s.parallelize(tv, axis, ParallelType.Bulk)
    return load_relation(buffered(s))


@pytest.mark.parametrize("loads", [False, True])
def test_an_odd_number_of_rows(loads: bool) -> None:
    """One dimension alone is dealt out, on one side or on both: nobody runs past its end."""
    r = rows(2, loads)
    assert nest(r) == {
        "Mo": ("ceildiv(K, 64)", "ceildiv(M, 128)"),
        "k": ("1", "ceildiv(K, 64)"),
    }
    assert r.tail is not None and len(r.roles) == 1
    stop = f"ceildiv(max(ceildiv(M, 128) - {r.roles[0].var}, 0), 2)"
    assert stops(r) == {"tile": stop, "group": "2", "k": "ceildiv(K, 64)"}
    assert str(r.load_stop) == "ceildiv(M, 128) * ceildiv(K, 64)"


def test_a_pair_of_tiles_for_each_cta() -> None:
    """Without a loop over tiles there is none to end: the second warpgroup may have nothing."""
    s = cached()
    for tv in (*LOADS, "T4"):
        boxes(s, tv)
        s.reorder(tv, {2: 1, 4: 2})
        s.merge(tv, 0, label="tiles")
        s.split(tv, 0, 2, labels=("cta", "group"))
        s.parallelize(tv, 0, ParallelType.BIDx)
    s.parallelize("T4", 1, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
        for axis in range(2, 5):
            s.parallelize(tv, axis, ParallelType.Bulk)
    r = load_relation(buffered(s))
    assert str(r.entry) == f"%ctaid.x * 2 + i47 < {TILES}"
    stop = f"min(max({TILES} - %ctaid.x * 2, 0), 2)"
    assert nest(r) == {"group": ("ceildiv(K, 64)", stop), "k": ("1", "ceildiv(K, 64)")}
    assert (r.tail, r.outside) == (None, 1)


def apart(s: Schedule) -> None:
    """Tiles of a CTA in two levels, the inner one outside."""
    for tv in (*LOADS, "T4"):
        s.split(tv, 1, 2, labels=("tileo", "tilei"))
        s.reorder(tv, {1: 2})
    for tv in LOADS:
        s.merge(tv, 1)
        s.merge(tv, 1)


REFUSED: dict[str, Callable[[Schedule], None]] = {"apart": apart}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: object) -> None:
    s = tiled()
    REFUSED[name](s)
    with pytest.raises(ScheduleError) as error:
        load_relation(buffered(s))
    assert str(error.value) == golden


def test_tiles_without_a_tail() -> None:
    assert load_relation(buffered(merged())).entry is None
