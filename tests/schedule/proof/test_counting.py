"""Places that loads count against the steps that exist, by enumeration."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.ground.expr import ONE, Const, Expr, evaluate
from tests.legality.walk import Walk, World
from tests.schedule.fusions import LOADS, boxes, cached
from wsched.schedule import Schedule, TransformGraph
from wsched.schedule.proof.counting import Counting, countings, together

LOAD = LOADS[0]
Change = Callable[[Schedule], None]
"""Splits and merges the loops ``Mo, k``, the first two of a load, into the first one."""


def threes(s: Schedule) -> None:
    s.split(LOAD, 1, 3, labels=("three", "k"))
    s.merge(LOAD, 1)
    s.merge(LOAD, 0)


def pairs_of_tiles(s: Schedule) -> None:
    s.split(LOAD, 0, 2, labels=("pair", "Mo"))
    s.merge(LOAD, 0)
    s.merge(LOAD, 0)


def both(s: Schedule) -> None:
    s.split(LOAD, 1, 3, inner_split=False, labels=("third", "k"))
    s.split(LOAD, 0, 2, labels=("pair", "Mo"))
    s.merge(LOAD, 0)
    s.merge(LOAD, 0)
    s.merge(LOAD, 0)


def threes_of_pairs(s: Schedule) -> None:
    """What the outer split adds lies behind the end of what the inner one adds."""
    s.split(LOAD, 1, 5, labels=("five", "k"))
    s.split(LOAD, 2, 3, labels=("three", "k"))
    for _ in range(3):
        s.merge(LOAD, 0)


def pairs_of_threes_of_tiles(s: Schedule) -> None:
    """What was rounded up is rounded up once more."""
    for size in (3, 2):
        s.split(LOAD, 0, size, labels=("some", "tile"))
        s.merge(LOAD, 0)
    s.merge(LOAD, 0)


def threes_around_one(s: Schedule) -> None:
    """A loop of one iteration stands between the threes and what they have."""
    s.split(LOAD, 1, 3, labels=("three", "k"))
    s.split(LOAD, 3, 1, inner_split=False, labels=("one", "Mi"))
    s.reorder(LOAD, {3: 2})
    for _ in range(3):
        s.merge(LOAD, 0)


CHANGES: dict[str, Change] = {
    f.__name__: f
    for f in (
        threes, pairs_of_tiles, both, threes_of_pairs, pairs_of_threes_of_tiles, threes_around_one,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize(("tiles", "k"), [(1, 1), (3, 4), (2, 7), (5, 6), (4, 11)])
def test_steps_in_front_of_places(name: str, tiles: int, k: int) -> None:
    s = cached()
    boxes(s, LOAD, (64, 64, 64))
    s.reorder(LOAD, {4: 1, 2: 2})
    CHANGES[name](s)
    graph, t = TransformGraph(s.fusion), s.tensor(LOAD)
    found = countings(graph, graph.group(t.loop[0]))
    assert [g.label for g, _ in found if g.extent != ONE] == ["Mo", "k"]
    whole = together([c for _, c in found])
    world = World(64 * tiles, 64, 64 * k, 1)
    walk = Walk(t, world)
    exists = walk.exists(walk.mesh(t.loop[:1]), t.loop[1:]).tolist()

    def value(e: Expr) -> int:
        return evaluate(e, world.env)

    assert (value(whole.places), value(whole.steps)) == (len(exists), tiles * k)
    steps = [place for place, there in enumerate(exists) if there]
    assert [value(whole.place(Const(n))) for n in range(len(steps))] == steps
    before = [sum(exists[:place]) for place in range(len(exists) + 1)]
    assert [value(whole.before(Const(p))) for p in range(len(exists) + 1)] == before


def test_what_ends_at_its_end_alone_is_a_minimum() -> None:
    tiles, k = Counting(Const(8), Const(7)), Counting(Const(3), Const(3))
    assert tiles.around(k) == Counting(Const(24), Const(21))
    assert not tiles.full and k.full


def test_an_empty_sum_has_one_place() -> None:
    none = Counting(Const(0), Const(0)).some()
    assert (none.places, none.steps) == (Const(1), Const(1))
