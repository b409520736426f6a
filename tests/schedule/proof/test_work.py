"""Where tiles come from: each kind's facts, counted out CTA by CTA."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lowering.ground.errors import InternalError, ScheduleError
from lowering.ground.expr import Const, evaluate
from tests.legality.by_hand.steps import steps_in_a_row_of_shares, steps_of_k_in_threes
from tests.schedule.fusions import linear
from tests.schedules import cooperative, dynamic, ping_pong, split_k, stream_k
from wsched.schedule import (
    FromQueue,
    InTurn,
    MatmulParams,
    OfInterval,
    Plan,
    Schedule,
    TransformGraph,
    Work,
    make_plan,
    plan_matmul,
)
from wsched.schedule.proof.work_of_groups import batch_of_tiles

PING_PONG = ping_pong(64, 64)
KINDS: dict[str, tuple[Callable[[MatmulParams], MatmulParams], type]] = {
    "in turn": (lambda p: p, InTurn),
    "parts of K": (lambda p: split_k(p, 3), InTurn),
    "from the queue": (dynamic, FromQueue),
    "an interval": (stream_k, OfInterval),
}


def made(name: str) -> Plan:
    """A plan with ping-pong tiles of 64 x 64 x 64."""
    return plan_matmul(linear(), KINDS[name][0](PING_PONG))


@pytest.mark.parametrize("name", KINDS)
def test_kinds(name: str) -> None:
    """Every edge has the kind of the plan, and says the same about how it is dealt out."""
    plan = made(name)
    works = [r.work for r in plan.relations]
    assert plan.work is works[0] and {type(w) for w in works} == {KINDS[name][1]}


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("in turn", (1, False, False, 0, None)),
        ("parts of K", (3, False, False, 0, 6 * 2 * 2)),
        ("from the queue", (1, True, False, 1, None)),
        ("an interval", (1, False, True, 0, 6)),
    ],
)
def test_facts(name: str, facts: tuple[object, ...]) -> None:
    """(splits, at run time, within tiles, warps that fetch, slots), of 9 tiles for 6 CTAs."""
    work = made(name).work
    slots = None if work.slots is None else evaluate(work.slots, env(6, m=3, n=3, k=4))
    assert (
        work.splits, work.at_run_time, work.ends_within_tiles, work.fetching_warps, slots
    ) == facts  # fmt: skip
    assert work.most_clusters is not None
    assert evaluate(work.most_clusters, env(6, m=3, n=3, k=4)) == (9 * 4 if facts[2] else 9)


def env(ctas: int, *, m: int, n: int, k: int, cta: int = 0, part: int = 0) -> dict[str, int]:
    """Sizes in tiles and steps, and registers."""
    sizes = {"M": 64 * m, "N": 64 * n, "K": 64 * k}
    return {**sizes, "%nctaid.x": ctas, "%ctaid.x": cta, "%ctaid.z": part}


def meet(work: Work, tile: Any, runs: dict[tuple[int, int], dict[str, int]]) -> None:
    """Those CTAs that run a part of a tile agree on who completes it and where the others' lie."""
    slots = {c: work.slots_of(tile(c)) for c in runs}

    def at(c: tuple[int, int], what: str) -> int:
        return evaluate(getattr(slots[c], what), runs[c])

    (owner,) = (c for c in runs if at(c, "completes"))
    others = sorted(at(c, "own") for c in runs if c != owner)
    first, step = at(owner, "first"), slots[owner].step
    assert others == [first + step * i for i in range(at(owner, "others"))]
    assert len({at(c, "meeting") for c in runs}) == 1
    assert len(others) == len(runs) - 1


Cta = tuple[int, int]


def bounds_of(work: OfInterval, whole: dict[Cta, dict[str, int]]) -> dict[Cta, tuple[int, int]]:
    """The first step of each CTA, and the one behind its last."""
    return {
        c: (evaluate(work.interval.start, e), evaluate(work.interval.stop, e))
        for c, e in whole.items()
    }


def meet_in_tiles(
    work: OfInterval,
    whole: dict[Cta, dict[str, int]],
    bounds: dict[Cta, tuple[int, int]],
    tiles: int,
    steps: int,
) -> None:
    """Those CTAs meet in each tile that have some of its steps."""
    for tile in range(tiles):
        begin, end = tile * steps, (tile + 1) * steps
        runs = {
            c: e for c, e in whole.items()
            if max(bounds[c][0], begin) < min(bounds[c][1], end)
        }  # fmt: skip
        meet(work, lambda c, tile=tile: Const(tile), runs)


@pytest.mark.parametrize("ctas", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("tiles", "steps"), [(1, 5), (3, 4), (5, 3), (2, 1)])
def test_parts_of_an_interval_meet(ctas: int, tiles: int, steps: int) -> None:
    work = plan_matmul(linear(), stream_k(cooperative(64, 64, groups=1, registers=None))).work
    assert isinstance(work, OfInterval)
    whole = {(c, 0): env(ctas, m=tiles, n=1, k=steps, cta=c) for c in range(ctas)}
    bounds = bounds_of(work, whole)
    assert sum(stop - start for start, stop in bounds.values()) == tiles * steps
    assert all(evaluate(work.load_stop, e) == bounds[c][1] - bounds[c][0] for c, e in whole.items())
    meet_in_tiles(work, whole, bounds, tiles, steps)


@pytest.mark.parametrize("ctas", [1, 2, 3, 4, 7, 12])
@pytest.mark.parametrize(("tiles", "steps"), [(1, 5), (3, 4), (5, 3), (2, 1), (4, 0)])
def test_parts_of_an_interval_with_places_meet(ctas: int, tiles: int, steps: int) -> None:
    """Places that are no steps are nobody's: who has a part of a tile has a step of it."""
    work = make_plan(steps_of_k_in_threes()).work
    assert isinstance(work, OfInterval)
    whole = {
        (c, 0): env(ctas, m=tiles, n=1, k=0, cta=c) | {"N": 32, "K": 16 * steps}
        for c in range(ctas)
    }
    per_tile = max(steps, 1)
    bounds = bounds_of(work, whole)
    taken = sorted(s for start, stop in bounds.values() for s in range(start, stop))
    assert taken == list(range(tiles * per_tile))
    most = evaluate(work.most_steps, whole[0, 0])
    meet_in_tiles(work, whole, bounds, tiles, per_tile)
    assert all((tile + 1) * per_tile <= most for tile in range(tiles))


def test_each_row_of_shares_has_slots_of_its_own() -> None:
    work = make_plan(steps_in_a_row_of_shares()).work
    assert work.slots is not None
    size = {"M": 128 * 3, "N": 64, "K": 32 * 5}
    env = [
        size | {"%nctaid.x": 4, "%ctaid.x": x, "%ctaid.y": y} for y in range(2) for x in range(4)
    ]
    assert evaluate(work.slots, env[0]) == 8
    tile = work.slots_of(Const(1))
    assert sorted(evaluate(tile.own, e) for e in env) == list(range(8))
    assert {(e["%ctaid.y"], evaluate(tile.meeting, e)) for e in env} == {(0, 1), (1, 5)}


@pytest.mark.parametrize("ctas", [1, 2, 5])
def test_parts_of_k_meet(ctas: int) -> None:
    """Each tile of a CTA along x has its own slots, all below the number that there is."""
    work = made("parts of K").work
    assert work.slots is not None
    taken: list[int] = []
    for cta in range(ctas):
        for before in range(2):
            runs = {
                (cta, z): env(ctas, m=2 * ctas, n=1, k=4, cta=cta, part=z) for z in range(3)
            }  # fmt: skip
            meet(work, lambda c, before=before: Const(before), runs)
            slots = work.slots_of(Const(before))
            taken += [evaluate(slots.own, runs[cta, z]) for z in range(2)]
    assert len(set(taken)) == len(taken) == 2 * 2 * ctas
    assert max(taken) < evaluate(work.slots, env(ctas, m=2 * ctas, n=1, k=4))


def test_tiles_of_a_queue_are_whole() -> None:
    with pytest.raises(InternalError) as error:
        made("from the queue").work.slots_of(Const(0))
    assert error.value.why == "tiles that are dealt out at run time are computed in parts"


def test_who_asks_the_queue_computes_the_tile_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """CTAs along z would each ask for tiles of their own, and add up parts of different ones."""
    split = Schedule.split

    def other(self: Schedule, *where: Any, **how: Any) -> None:
        split(self, *where, **how | {"dynamic": how["labels"] == ("tile", "cta")})

    params = split_k(cooperative(64, 64, groups=1, registers=None), 3)
    monkeypatch.setattr(Schedule, "split", other)
    with pytest.raises(ScheduleError) as error:
        plan_matmul(linear(), params)
    assert (error.value.rule, error.value.why, error.value.legal) == (
        "load-bound",
        "tiles are dealt out at run time, each to one CTA, but all CTAs of loop part 3 [BIDz] of "
        "T6 need the same",
        ("split tiles with dynamic=False",),
    )


def test_tiles_of_a_batch_are_merged_behind_it() -> None:
    """``M`` in place of the groups: all of ``N`` of one, and then of the next."""
    groups = cast(Any, SimpleNamespace(axis="M"))

    def found(change: Callable[[Schedule], object], at: int = 0) -> list[str] | None:
        s = Schedule(linear())
        change(s)
        graph = TransformGraph(s.fusion)
        made = batch_of_tiles(graph, graph.group(s.tensor("T4").loop[at]), groups)
        return None if made is None else [g.label for g in made]

    def behind_each_other(s: Schedule) -> None:
        s.split("T4", 0, 4)
        s.merge("T4", 1)

    def around_part(s: Schedule) -> None:
        s.split("T4", 0, 4)
        s.reorder("T4", {1: 2})
        s.merge("T4", 0)

    assert found(lambda s: s.merge("T4", 0)) == ["M", "N"]
    assert found(lambda s: None) is None
    assert found(lambda s: s.merge("T4", 0, traversal=2)) is None
    assert found(lambda s: s.split("T4", 0, 4)) is None
    assert found(behind_each_other, 1) is None
    assert found(around_part) is None
    assert found(lambda s: s.merge("T4", 1, 0)) is None
