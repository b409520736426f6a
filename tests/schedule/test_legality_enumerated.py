"""The symbolic decision against enumeration, for random schedules at small sizes.

The oracle knows nothing of the transform graph: it walks the transforms of one tensor at a time
with numbers, lists which (tile, k) each load step and each compute iteration stands for, and
compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const, evaluate
from tests.schedule.fusions import buffered, tiled
from wsched.fusion import Fusion, ParallelType, Split, TensorView, unmerge_index
from wsched.schedule import LoadRelation, Schedule, load_relation

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


def logical(t: TensorView, loops: dict[int, int], env: dict[str, int]) -> dict[str, int]:
    """Indices of the loops before scheduling, by label, from those of the loop nest."""
    value = dict(loops)
    for step in reversed(t.transforms):
        if isinstance(step, Split):
            inner = evaluate(step.inner.extent, env)
            value[step.input.id] = value[step.outer.id] * inner + value[step.inner.id]
        else:
            outer, inner_index = unmerge_index(step, Const(value[step.output.id]))
            value[step.outer.id] = evaluate(outer, env)
            value[step.inner.id] = evaluate(inner_index, env)
    named = {s.input.label: s.input.id for s in t.transforms if isinstance(s, Split)}
    return {label: value[named[label]] for label in ("tiles", "K")}


def visits(t: TensorView, env: dict[str, int]) -> list[tuple[dict[str, int], tuple[int, int]]]:
    """Iterations of the outer loops in order, each with its (tile, k); of real tiles only."""
    outer = [d for d in t.loop if d.parallel not in (ParallelType.Bulk, ParallelType.Mma)]
    tiles = -(-env["M"] // 2) * -(-env["N"] // 2)
    found = []
    for index in product(*(range(evaluate(d.extent, env)) for d in outer)):
        loops = {d.id: 0 for d in t.loop} | {d.id: i for d, i in zip(outer, index, strict=True)}
        at = logical(t, loops, env)
        if at["tiles"] < tiles:
            named = {d.label: i for d, i in zip(outer, index, strict=True)}
            named |= {d.name: i for d, i in zip(outer, index, strict=True)}
            found.append((named, (at["tiles"], at["K"] // 2)))
    return found


def holds(f: Fusion, env: dict[str, int], relation: LoadRelation | None) -> bool:
    """Whether, on every CTA, the compute side takes each load step once and in order."""
    load, compute = f.tensor("T6"), f.tensor("T4")
    roles = compute.axis_on(ParallelType.TIDy)
    for cta in range(env["%nctaid.x"]):
        step_of = {
            at: index[load.loop[1].label] for index, at in visits(load, env) if index["cta"] == cta
        }
        mine = [(i, at) for i, at in visits(compute, env) if i["cta"] == cta]
        taken: list[int] = []
        for role in range(1 if roles is None else evaluate(roles.extent, env)):
            steps = [
                step_of.get(at, -1) for i, at in mine if roles is None or i[roles.label] == role
            ]
            if steps != sorted(set(steps)):
                return False
            taken += steps
        if sorted(taken) != list(range(len(step_of))):
            return False
        if relation is not None:
            agree(relation, {**env, "%ctaid.x": cta}, mine, step_of)
    return True


def agree(
    relation: LoadRelation,
    env: dict[str, int],
    mine: list[tuple[dict[str, int], tuple[int, int]]],
    step_of: dict[tuple[int, int], int],
) -> None:
    """The relation's index and bounds are those enumerated."""
    assert evaluate(relation.load_stop, env) == len(step_of)
    for index, at in mine:
        assert evaluate(relation.index, {**env, **index}) == step_of[at]
    tail = relation.tail
    if tail is not None and tail.serial is not None and tail.serial_stop is not None:
        for index, _ in mine:
            assert index[tail.serial.name] < evaluate(tail.serial_stop, {**env, **index})


factors = st.sampled_from([1, 1, 2, 3])
orders = st.permutations(range(4)).map(tuple)
free = st.builds(
    Plan, factors, factors, st.sampled_from([1, 2]), st.sampled_from([1, 2]), orders, orders,
    st.booleans(), st.booleans(),
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(free)
def test_the_decision_agrees_with_enumeration(plan: Plan) -> None:
    f = schedule(plan)
    try:
        relation = load_relation(f)
    except ScheduleError:
        relation = None
    if relation is not None:
        assert all(holds(f, env, relation) for env in PROBLEMS)
    elif matching(plan):
        assert not all(holds(f, env, None) for env in PROBLEMS)


def matching(plan: Plan) -> bool:
    """Both sides split alike and one serial loop over tiles: then a refusal needs a fault.

    Otherwise a refusal may be out of caution: two loops that end early, or unequal factors whose
    quotients the proof does not simplify.
    """
    same = (plan.load_tile, plan.load_k) == (plan.compute_tile, plan.compute_k)
    return same and (plan.compute_tile == 1 or (plan.role and plan.strided))


@settings(max_examples=60, deadline=None)
@given(factor=st.sampled_from([1, 2, 3, 4]), load_splits=st.booleans())
def test_ping_pong_with_any_number_of_groups_is_legal(factor: int, load_splits: bool) -> None:
    plan = Plan(factor if load_splits else 1, factor, 1, 1, (0, 1, 2, 3), (0, 1, 2, 3), True)
    f = schedule(plan)
    relation = load_relation(f)
    assert relation.roles == factor
    assert all(holds(f, env, relation) for env in PROBLEMS)
