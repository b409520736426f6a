"""The symbolic decision against enumeration, for random schedules at small sizes.

The oracle knows nothing of the transform graph: it walks the transforms of one tensor at a time
with numbers, lists which (tile, k) each load step and each compute iteration stands for, and
compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const, evaluate
from tests.schedule.fusions import buffered, tiled
from tests.schedule.relation import load_relation
from wsched.fusion import Fusion, ParallelType, Split, TensorView, unmerge_index
from wsched.schedule import (
    LoadRelation,
    Schedule,
)

# Tiles of 2 x 2 x 2, so that sizes of a few elements have several tiles and k steps.
SIZES = (2, 2, 2)
PROBLEMS = [
    {"M": 6, "N": 4, "K": 6, "%nctaid.x": 1},
    {"M": 5, "N": 6, "K": 4, "%nctaid.x": 2},
    {"M": 10, "N": 2, "K": 10, "%nctaid.x": 3},
    {"M": 7, "N": 5, "K": 8, "%nctaid.x": 2},
    {"M": 2, "N": 2, "K": 2, "%nctaid.x": 2},
]
LOADS = ("T6", "T7")


@dataclass(frozen=True)
class Plan:
    """Random choices: how the sides are split, merged and nested."""

    load_tile: int
    compute_tile: int
    load_k: int
    compute_k: int
    merge_order: tuple[int, ...]
    compute_order: tuple[int, ...]
    role: bool
    strided: bool = True


def split_side(s: Schedule, tv: str, tile: int, k: int) -> int:
    """Split k, then tile, by factors above 1; the number of loops that step."""
    if k > 1:
        s.split(tv, 2, k, labels=("ko", "ki"))
    if tile > 1:
        s.split(tv, 1, tile, labels=("tileo", "tilei"))
    return 2 + (k > 1) + (tile > 1)


def merge_in_order(s: Schedule, tv: str, order: list[int]) -> None:
    """Merge the stepping loops so that ``order`` lists them from slowest to fastest."""
    s.reorder(tv, {old + 1: new + 1 for new, old in enumerate(order)})
    for _ in order[1:]:
        s.merge(tv, 1)


def schedule(plan: Plan) -> Fusion:
    s = tiled(SIZES, plan.strided)
    for tv in LOADS:
        n = split_side(s, tv, plan.load_tile, plan.load_k)
        merge_in_order(s, tv, [p for p in plan.merge_order if p < n])
    n = split_side(s, "T4", plan.compute_tile, plan.compute_k)
    order = [p for p in plan.compute_order if p < n]
    s.reorder("T4", {old + 1: new + 1 for new, old in enumerate(order)})
    labels = [d.label for d in s.tensor("T4").loop]
    if plan.role and "tilei" in labels:
        s.parallelize("T4", labels.index("tilei"), ParallelType.TIDy)
    return buffered(s)


def logical(
    t: TensorView, loops: dict[int, int], env: dict[str, int]
) -> tuple[dict[str, int], bool]:
    """Indices before scheduling, by label, from those of the loop nest; and whether they exist:
    the input of every split is in range.
    """
    value, exists = dict(loops), True
    for step in reversed(t.transforms):
        if isinstance(step, Split):
            inner = evaluate(step.inner.extent, env)
            value[step.input.id] = value[step.outer.id] * inner + value[step.inner.id]
            exists &= value[step.input.id] < evaluate(step.input.extent, env)
        else:
            outer, inner_index = unmerge_index(step, Const(value[step.output.id]))
            value[step.outer.id] = evaluate(outer, env)
            value[step.inner.id] = evaluate(inner_index, env)
    named = {s.input.label: s.input.id for s in t.transforms if isinstance(s, Split)}
    return {label: value[named[label]] for label in ("tiles", "K")}, exists


Visit = tuple[dict[str, int], tuple[int, int]]


def visits(t: TensorView, env: dict[str, int]) -> list[Visit]:
    """Iterations of the outer loops in order, each with its (tile, k), of those that exist."""
    outer = [d for d in t.loop if d.parallel not in (ParallelType.Bulk, ParallelType.Mma)]
    found = []
    for index in product(*(range(evaluate(d.extent, env)) for d in outer)):
        loops = {d.id: 0 for d in t.loop} | {d.id: i for d, i in zip(outer, index, strict=True)}
        at, exists = logical(t, loops, env)
        if exists:
            named = {d.label: i for d, i in zip(outer, index, strict=True)}
            named |= {d.name: i for d, i in zip(outer, index, strict=True)}
            found.append((named, (at["tiles"], at["K"] // 2)))
    return found


def holds(f: Fusion, env: dict[str, int], relation: LoadRelation | None) -> bool:
    """Whether, on every CTA, the compute side takes each load step once and in order, roles in
    turn, tile by tile.
    """
    load, compute = f.tensor("T6"), f.tensor("T4")
    label = next((d.label for d in compute.loop if d.parallel is ParallelType.TIDy), None)
    for cta in range(env["%nctaid.x"]):
        steps = [at for index, at in visits(load, env) if index["cta"] == cta]
        mine = [(i, at) for i, at in visits(compute, env) if i["cta"] == cta]
        role_of = {at: 0 if label is None else i[label] for i, at in mine}
        if len(set(steps)) != len(steps) or sorted(steps) != sorted(at for _, at in mine):
            return False
        for role in set(role_of.values()):
            if [at for at in steps if role_of[at] == role] != [
                at for _, at in mine if role_of[at] == role
            ]:
                return False
        if label is not None and not in_turn([(role_of[at], at[0]) for at in steps], compute, env):
            return False
        if relation is not None:
            agree(relation, compute, {**env, "%ctaid.x": cta}, steps)
    return True


def in_turn(order: list[tuple[int, int]], compute: TensorView, env: dict[str, int]) -> bool:
    """Whether roles come one after the other, each with all steps of one tile."""
    runs = [run for run, _ in groupby(order)]
    d = compute.axis_on(ParallelType.TIDy)
    roles = 1 if d is None else evaluate(d.extent, env)
    whole = len({tile for _, tile in runs}) == len(runs)
    return whole and [role for role, _ in runs] == [n % roles for n in range(len(runs))]


def agree(
    relation: LoadRelation, compute: TensorView, env: dict[str, int], steps: list[tuple[int, int]]
) -> None:
    """Within their bounds compute's loops take each load step once, and those that exist are the
    steps enumerated; both sides may run on together behind the end of K.
    """
    taken: dict[int, tuple[int, int]] = {}
    for index in bounded(relation, env):
        loops = {d.id: 0 for d in compute.loop} | index | {compute.loop[0].id: env["%ctaid.x"]}
        at, exists = logical(compute, loops, env)
        step = evaluate(relation.index, {**env, **names(index)})
        assert step not in taken
        taken[step] = (at["tiles"], at["K"] // 2) if exists else (-1, -1)
        assert exists or at["K"] >= env["K"]
    assert sorted(taken) == list(range(evaluate(relation.load_stop, env)))
    assert [at for _, at in sorted(taken.items()) if at != (-1, -1)] == steps


def bounded(relation: LoadRelation, env: dict[str, int]) -> list[dict[int, int]]:
    """The digits' indices within their bounds, roles first."""
    found = [dict[int, int]()]
    for s in sorted(relation.digits, key=lambda s: not s.role):
        if not s.role and relation.entry is not None:
            found = [x for x in found if evaluate(relation.entry, {**env, **names(x)})]
        found = [
            {**x, s.domain.id: i}
            for x in found
            for i in range(evaluate(s.stop, {**env, **names(x)}))
        ]
    return found


def names(index: dict[int, int]) -> dict[str, int]:
    return {f"i{d}": i for d, i in index.items()}


factors = st.sampled_from([1, 1, 2, 3])
orders = st.permutations(range(4)).map(tuple)
free = st.builds(
    Plan, factors, factors, st.sampled_from([1, 2]), st.sampled_from([1, 2]), orders, orders,
    st.booleans(), st.booleans(),
)  # fmt: skip


def decided_as_enumerated(plan: Plan) -> None:
    f = schedule(plan)
    try:
        relation = load_relation(f)
    except ScheduleError as e:
        # Load steps of tiles that are not consecutive are refused as such, out of caution.
        if e.rule != "load-bound":
            assert not all(holds(f, env, None) for env in PROBLEMS), str(e)
    else:
        assert all(holds(f, env, relation) for env in PROBLEMS)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(free)
def test_the_decision_agrees_with_enumeration(plan: Plan) -> None:
    decided_as_enumerated(plan)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(1, 1, 1, 1, (0, 1, 2, 3), (0, 1, 2, 3), False),
        Plan(2, 2, 2, 1, (0, 1, 2, 3), (0, 1, 2, 3), True),
        Plan(3, 1, 1, 2, (1, 0, 2, 3), (0, 1, 3, 2), False, strided=False),
    ],
)
def test_plans_that_agree(plan: Plan) -> None:
    """One that is as it should be, one whose warpgroups take turns, one in another order."""
    decided_as_enumerated(plan)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 2, 3, 4]), st.booleans(), st.booleans())
def test_ping_pong_with_any_number_of_groups_is_legal(
    factor: int, load_splits: bool, strided: bool
) -> None:
    order = (0, 1, 2, 3)
    plan = Plan(factor if load_splits else 1, factor, 1, 1, order, order, True, strided)
    f = schedule(plan)
    relation = load_relation(f)
    assert relation.warpgroups.count == factor
    assert all(holds(f, env, relation) for env in PROBLEMS)
