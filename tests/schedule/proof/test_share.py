"""Which share of the load steps is a CTA's, and what ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lowering.ground.errors import ScheduleError
from lowering.target.targets import DEFAULT
from tests.schedule.fusions import LOADS, buffered, merged, tiled
from tests.schedule.proof.test_check_interval import dealt as deal_steps
from tests.schedule.proof.test_check_interval import dealt_to_clusters as deal_to_clusters
from tests.schedule.proof.test_check_interval import done, turns
from tests.schedule.proof.test_check_interval import tiled as tiles_and_k
from tests.schedule.proof.test_dealt import one_load_loop
from tests.schedule.proof.test_dealt import scheduled as dealt
from tests.schedule.relation import load_relation
from wsched.fusion import Fusion, ParallelType
from wsched.schedule import FromQueue, InTurn, OfInterval, Schedule, TransformGraph
from wsched.schedule.proof.share import find_share
from wsched.schedule.proof.sides import find_sides


def in_shares() -> Fusion:
    """The steps of all tiles, dealt out in intervals; two warpgroups take turns with the tiles."""
    s = tiles_and_k()
    turns(s)
    deal_steps(s)
    return done(s)


def from_the_queue() -> Fusion:
    s = dealt("cta tile k")
    one_load_loop(s)
    return buffered(s)


KINDS: dict[str, tuple[Callable[[], Fusion], type, list[str]]] = {
    "in turn": (lambda: buffered(merged()), InTurn, ["tile·k"]),
    "from the queue": (from_the_queue, FromQueue, ["tile·k"]),
    "an interval": (in_shares, OfInterval, ["tiles·k"]),
}
"""What is scheduled, where its tiles come from, and what compute's digits count."""


@pytest.mark.parametrize("name", KINDS)
def test_where_tiles_come_from(name: str) -> None:
    make, kind, counted = KINDS[name]
    fusion = make()
    (readers,) = find_sides(fusion, TransformGraph(fusion), DEFAULT)
    share = find_share(readers.sides[0])
    assert [g.label for g in share.whole] == counted
    assert (share.dealt is not None) == (kind is FromQueue)
    assert isinstance(load_relation(fusion).work, kind)


def test_loops_on_ctas_are_those_of_the_loads() -> None:
    fusion = buffered(merged())
    (readers,) = find_sides(fusion, TransformGraph(fusion), DEFAULT)
    share, compute = find_share(readers.sides[0]), fusion.tensor("T4")
    assert [share.as_loads(d) for d in compute.loop] == [True] + [False] * 5


def in_parts(parts: int) -> Fusion:
    """Each CTA along z has a part of K."""
    s = tiled()
    for tv in (*LOADS, "T4"):
        s.split(tv, 2, parts, inner_split=False, labels=("part", "k"))
        s.parallelize(tv, 2, ParallelType.BIDz)
    for tv in LOADS:
        s.reorder(tv, {2: 1})
        s.merge(tv, 2)
    return buffered(s)


def test_parts_of_a_sum_are_added_up() -> None:
    """Of three parts two are put down, for each tile that a CTA has."""
    r = load_relation(in_parts(3))
    assert isinstance(r.work, InTurn) and r.work.splits == 3
    assert str(r.work.slots) == f"%nctaid.x * {r.digits[0].domain.extent} * 2"
    assert load_relation(buffered(merged())).work.slots is None


def test_an_interval_is_known_to_every_cta(monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing of it is dealt out at run time: here which columns a cluster has."""
    split = Schedule.split

    def other(self: Schedule, *where: Any, **how: Any) -> None:
        split(self, *where, **how | {"dynamic": how["labels"] == ("Nc", "ctaN")})

    monkeypatch.setattr(Schedule, "split", other)
    s = tiles_and_k(cluster=2)
    s.parallelize("T4", 0, ParallelType.BIDx)
    deal_to_clusters(s)
    with pytest.raises(ScheduleError) as error:
        load_relation(done(s))
    assert (error.value.rule, error.value.why, error.value.legal) == (
        "load-bound",
        "No are dealt out at run time, but the load loop tile·k is a share of the steps of all "
        "tiles, which every CTA knows",
        ("split No with dynamic=False",),
    )
