"""Loop nests in numbers."""

from __future__ import annotations

import numpy as np

from lowering.ground.expr import Const, Special, evaluate
from tests.legality.builder import unscheduled
from tests.legality.walk import Walk, World, roots
from wsched.fusion import Merge, merge_index
from wsched.schedule import Schedule

OUT, SUM = "T5", "T4"


def test_a_tail_does_not_exist_and_a_box_that_touches_does() -> None:
    s = Schedule(unscheduled())
    s.split(OUT, 0, 4, labels=("Mo", "Mi"))
    s.split(OUT, 0, 2, labels=("a", "b"))
    walk = Walk(s.tensor(OUT), World(9, 1, 1, 1))
    a, b, inner, _ = s.tensor(OUT).loop
    loops = walk.mesh([a, b])
    assert [walk.extent(d) for d in (a, b, inner)] == [2, 2, 4]
    assert walk.coordinates(loops)[0].tolist() == [0, 4, 8, 12]
    assert walk.exists(loops, (inner,)).tolist() == [True, True, True, False]
    through = Walk(s.tensor(OUT), World(9, 1, 1, 1, through=frozenset({0})))
    assert through.exists(loops, (inner,)).all()
    tiles = Walk(s.tensor(OUT), World(9, 1, 1, 1, overhang=frozenset({0})))
    assert tiles.exists(loops, (inner,)).tolist() == [True, True, True, False]
    over = tiles.mesh([a, b, inner])
    assert (tiles.exists(over, ()) == (over[a.id] * 2 + over[b.id] < 3)).all()


def test_what_is_dealt_out_is_dealt_once() -> None:
    s = Schedule(unscheduled())
    s.split(OUT, 0, Special("nctaid.x"), labels=("tile", "cta"), dynamic=True)
    tile, cta, _ = s.tensor(OUT).loop
    for deal in range(4):
        walk = Walk(s.tensor(OUT), World(11, 1, 1, 3, deal))
        loops = walk.mesh([cta, tile])
        rows = walk.coordinates(loops)[0][walk.exists(loops, ())]
        assert sorted(rows.tolist()) == list(range(11))
        assert deal == 0 or walk.extent(tile) >= 4


def test_an_order_of_groups_is_that_of_the_fusion() -> None:
    s = Schedule(unscheduled())
    s.merge(OUT, 0, traversal=3)
    t = s.tensor(OUT)
    walk = Walk(t, World(8, 5, 1, 1))
    rows, columns = walk.coordinates(walk.mesh(t.loop))
    step = t.transforms[0]
    assert isinstance(step, Merge)
    env = {"M": 8, "N": 5}
    for flat, (m, n) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        assert evaluate(merge_index(step, Const(m), Const(n)), env) == flat
    assert roots(t, t.loop[0]) == {0, 1}


def test_a_box_with_gaps_is_none() -> None:
    s = Schedule(unscheduled())
    s.split(OUT, 0, 8, labels=("Mo", "Mi"))
    s.split(OUT, 1, 2, labels=("a", "b"))
    walk = Walk(s.tensor(OUT), World(16, 4, 1, 1))
    _, a, b, _ = s.tensor(OUT).loop
    assert walk.box([a, b]) == (8, 1)
    assert walk.box([b]) == (2, 1)
    assert walk.box([a]) is None
    assert np.array_equal(walk.mesh([])[a.id], [0])


def test_a_box_of_what_is_empty_is_what_it_is_elsewhere() -> None:
    """Nothing is loaded at K = 0, so no box of it has a gap."""
    s = Schedule(unscheduled())
    s.split(SUM, 2, 1, inner_split=False, labels=("one", "all"))
    s.merge(SUM, 2, label="k")
    s.split(SUM, 2, 8, labels=("ko", "ki"))
    *_, inner = s.tensor(SUM).loop
    assert [Walk(s.tensor(SUM), World(1, 1, k, 1)).box([inner]) for k in (0, 9)] == [(1, 1, 8)] * 2
