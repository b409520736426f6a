"""What is dumped is what runs: the tree of loops, enumerated, against the machine's record."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import pytest

from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from tests.legality.machine import Problem, compiled
from tests.legality.parts import Illegal, Parts
from tests.legality.test_by_hand import MADE, QUICK, RUN
from tests.legality.walk import World
from tests.lowering.nest.own import OWN
from tests.lowering.nest.recorded import dealt, recorded, run
from tests.lowering.nest.visits import Piece, Visits, dumped
from tests.schedules import SCHEDULES, definition
from tests.tiers import in_tiers
from wsched.front.known import import_fusion
from wsched.front.own import kernel_of
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.plan import Plan, make_plan

BUILT_IN = {
    "coop_128x64", "coop_traversal_odd", "coop_1_group_2_rows", "coop_3_groups", "tile_per_cta",
    "pipelined_1_group", "pingpong_64x128", "pingpong_in_flight_0", "cluster_1x2", "split_2",
    "dynamic_cluster_pingpong", "stream_k_pingpong", "exchanged",
}  # fmt: skip
"""Of each kind, the cheaper ones."""

FEW, MANY = Problem(136, 72, 456, 5, 2), Problem(200, 392, 264, 2, 2)
"""Fewer tiles than CTAs, and more; with tails along each dimension."""

STEPS_OF_A_TILE = {
    "M": {
        "epilogue_in_blocks", "epilogue_in_blocks_of_a_queue", "epilogue_in_pairs_of_blocks",
        "epilogue_in_turns", "epilogue_in_turns_of_a_queue", "halves_of_a_tile",
    },
    "N": {
        "epilogue_apart", "epilogue_by_tma", "epilogue_in_blocks", "epilogue_in_blocks_of_a_queue",
        "epilogue_in_pairs_of_blocks", "epilogue_of_a_queue", "operand_and_epilogue_apart",
        "residual_by_ring",
    },
}  # fmt: skip
"""Schedules whose rings have steps that are parts of a tile, along a dimension."""

PARTS_OF_A_TILE = {
    "M": {"halves_of_a_tile_on_x", "halves_of_a_tile_on_y"}, "N": {"steps_of_halves_on_y"}
}  # fmt: skip
"""Those where CTAs load a whole tile each, and compute a part of it."""


@lru_cache(1)
def by_hand(name: str) -> tuple[Plan, Kernel]:
    plan = make_plan(MADE[name]())
    return plan, compiled(plan)


@lru_cache(1)
def by_calls(name: str) -> tuple[Plan, Kernel]:
    made = kernel_of(OWN[name]())
    return made.plan, made.kernel


def built_in(name: str) -> tuple[Plan, Kernel]:
    return of_params(SCHEDULES[name])


@lru_cache(1)
def of_params(params: MatmulParams) -> tuple[Plan, Kernel]:
    made = compile_fusion(import_fusion(definition()), params)
    return made.plan, made.kernel


def runs_on(plan: Plan, kernel: Kernel, name: str) -> set[str]:
    """Behind the end of which dimensions both sides run on together (note 0020). Of all others they
    end with what exists.
    """
    found = {
        dim
        for some in (STEPS_OF_A_TILE, PARTS_OF_A_TILE)
        for dim, names in some.items()
        if name in names
    }
    if kernel.cluster > 1:  # neighbours take every step together
        found |= {"M", "N"}
    if Parts(plan.fusion).splits_k:  # parts of K on CTAs along z are all as long
        found |= {"K"}
    return found


@dataclass(frozen=True)
class Launch:
    """A run of a kernel.

    Args:
        plan, kernel: what runs.
        world: where, and behind the end of which dimensions it runs on.
        found: what the machine records.
    """

    plan: Plan
    kernel: Kernel
    world: World
    found: list[Visits]

    @property
    def said(self) -> list[Visits]:
        """What is dumped."""
        return dumped(self.plan, self.kernel, self.world)


def launch(made: tuple[Plan, Kernel], p: Problem, name: str) -> Launch:
    plan, kernel = made
    outer = {"B": p.batch} if Parts(plan.fusion).outer else {}
    sizes = {**outer, "M": p.m, "N": p.n, "K": p.k}
    grid = evaluate(kernel.grid, {**sizes, "sms": max(p.sms, kernel.cluster)})
    ran = run(plan, kernel, sizes, grid)
    deal = dealt(plan, kernel, ran, sizes, grid) or 0
    through = frozenset(map(list(sizes).index, runs_on(plan, kernel, name)))
    world = World(p.m, p.n, p.k, grid, deal, through, batch=outer.get("B"))
    return Launch(plan, kernel, world, recorded(plan, kernel, ran, sizes, grid))


def check(made: tuple[Plan, Kernel], p: Problem, name: str) -> None:
    ran = launch(made, p, name)
    assert ran.found == ran.said
    assert any(any(v.loads.values()) for v in ran.found) and any(v.computes for v in ran.found)


@pytest.mark.sampled
@pytest.mark.parametrize("name", in_tiers(SCHEDULES, BUILT_IN))
def test_those_that_are_built_in(name: str) -> None:
    check(built_in(name), FEW, name)


@pytest.mark.sampled
@pytest.mark.parametrize("name", OWN)
def test_those_that_are_written_call_by_call(name: str) -> None:
    check(by_calls(name), FEW, name)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", in_tiers(RUN, QUICK))
def test_those_by_hand(name: str) -> None:
    """All that run: none is left out."""
    check(by_hand(name), FEW, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, p in SCHEDULES.items() if not p.deferred_stores])
def test_more_tiles_of_those_that_are_built_in(name: str) -> None:
    """But for those whose stores a pass moves to the next tile, which loops do not say."""
    check(built_in(name), MANY, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_more_tiles_of_those_that_are_written_call_by_call(name: str) -> None:
    check(by_calls(name), MANY, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_more_tiles_of_those_by_hand(name: str) -> None:
    check(by_hand(name), MANY, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    sorted(
        {x for some in (STEPS_OF_A_TILE, PARTS_OF_A_TILE) for names in some.values() for x in names}
        | {"panels", "split_k_in_two_levels"}
    ),
)
def test_those_that_run_on_do(name: str) -> None:
    """None of them is said to without need: it would be another schedule, or an illegal one."""
    ran = launch((by_calls if name in OWN else by_hand)(name), FEW, name)
    with suppress(Illegal):
        assert dumped(ran.plan, ran.kernel, replace(ran.world, through=frozenset())) != ran.found


def test_another_nest_is_found() -> None:
    """Kernels whose tiles go by columns do not match what is dumped of those that go by rows."""
    p, params = Problem(264, 264, 72, 1), SCHEDULES["coop_1_group_2_rows"]
    columns = replace(params, cta_order=SCHEDULES["coop_columns"].cta_order)
    by_rows, by_columns = (launch(of_params(x), p, "") for x in (params, columns))
    assert by_rows.found == by_rows.said
    assert by_columns.found == by_columns.said != by_rows.said


def test_what_a_visit_is() -> None:
    """Two warpgroups with 64 rows each, three slices of K, four stages."""
    steps = [(0, 0), (1, 0), (2, 0)]
    loads = [(n, [("T0", (0, 64 * n)), ("T1", (0, 64 * n))]) for n in range(3)]
    stored = ("T5", (0, 0))
    ran = launch(built_in("coop_traversal_odd"), Problem(64, 64, 136, 1), "")
    first = {("ring", "T5"): [(steps, [stored])]}
    nothing = {("ring", "T5"): [(steps, list[Piece]())]}
    visits = Visits({"ring": loads}, {("compute", 0): first, ("compute", 1): nothing})
    assert ran.said == ran.found == [visits]


def test_who_gets_a_tile_at_run_time_is_what_the_machine_says() -> None:
    """Two CTAs, and each tile goes to one of them."""
    deal = launch(built_in("dynamic_1_group"), MANY, "dynamic_1_group").world.deal
    assert isinstance(deal, tuple) and len(deal) == 2
    assert sorted(tile for tiles in deal for tile in tiles) == list(range(sum(map(len, deal))))
