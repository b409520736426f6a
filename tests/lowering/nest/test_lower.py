from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE, Expr, Special, Var, evaluate, maximum, minimum
from lowering.kernel.nodes import Consume, Produce, Section
from lowering.kernel.text import print_body
from lowering.kernel.verify import verify
from lowering.nest.lower import _grid, lower
from tests.legality.by_hand.batches import matrices_on_y_and_k_on_z
from tests.lowering.nest.kernels import CLUSTER_2X1, SMALL, tile_level
from tests.passes.evaluator import execute
from tests.schedule.fusions import COOPERATIVE, linear
from tests.schedules import dynamic
from wsched.schedule import make_plan, plan_matmul, schedule_matmul
from wsched.schedule.matmul import scheduler as matmul
from wsched.schedule.schedule import Schedule


@pytest.mark.parametrize("name", [*SMALL, CLUSTER_2X1])
def test_tile_level(name: str, golden: object) -> None:
    """One loop for the load section, the compute section's own loops beside it."""
    assert print_body(tile_level(name).body) == golden


def test_results_from_registers(golden: object) -> None:
    """Each chunk of the columns goes to a plain tensor, written by pairs or single elements."""
    scheduled = schedule_matmul(linear(), replace(SMALL["cooperative"], use_smem_epilogue=False))
    kernel = lower(make_plan(scheduled), "registers")
    assert verify(kernel) == []
    assert [t.name for t in kernel.tensor_maps] == ["T0", "T1"]
    assert [g.align for g in kernel.globals] == [4]
    assert [g.align for g in lower(make_plan(scheduled), "registers", vector=1).globals] == [1]
    compute = next(s for s in kernel.body if isinstance(s, Section) and s.name == "compute")
    assert print_body(compute.body) == golden


def test_ctas_along_y_are_those_of_its_loop() -> None:
    """One for each matrix of a batch; one alone where no loop runs there."""
    kernel = lower(make_plan(matrices_on_y_and_k_on_z()), "k")
    assert (kernel.grid_y, kernel.splits) == (Var("B"), 2)
    assert tile_level("cooperative").grid_y == ONE


M, CTAS, SMS = Var("M"), Special("nctaid.x"), Var("sms")


@pytest.mark.parametrize(
    ("asked", "most", "size", "splits", "grid"),
    [
        (M * 2, M, 2, 1, M * 2),
        (None, M, 1, 1, minimum(M, SMS)),
        (None, M, 2, 1, minimum(M, SMS // 2) * 2),
        (None, M, 2, 3, minimum(M, maximum(SMS // 6, 1)) * 2),
        (None, None, 1, 1, SMS),
        (None, None, 4, 1, SMS // 4 * 4),
        (None, None, 2, 3, maximum(SMS // 6, 1) * 2),
        (None, CTAS * M, 4, 1, SMS // 4 * 4),
    ],
)
def test_so_many_ctas_are_launched(
    asked: Expr | None, most: Expr | None, size: int, splits: int, grid: Expr
) -> None:
    """As the schedule says; else as there is place for, and of those that have something to do."""
    work = SimpleNamespace(most_clusters=most, splits=splits)
    plan: Any = SimpleNamespace(grid=asked, fusion=SimpleNamespace(tensors=()), work=work)
    for m, sms in ((3, 132), (500, 132), (3, 7)):
        env = {"M": m, "sms": sms, "%nctaid.x": 8}
        assert evaluate(_grid(plan, size), env) == evaluate(grid, env)


@pytest.mark.parametrize("name", SMALL)
def test_well_formed(name: str) -> None:
    assert verify(tile_level(name)) == []


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (200, 300, 190), (64, 520, 65), (300, 128, 0)])
@pytest.mark.parametrize("ctas", [1, 2, 5])
def test_both_sections_go_through_the_same_steps(
    name: str, sizes: tuple[int, int, int], ctas: int
) -> None:
    """With the bounds that each computes; in ping-pong the groups' steps interleave."""
    kernel = tile_level(name)
    (ring,) = kernel.rings
    groups = next(s.groups for s in kernel.body if isinstance(s, Section) and s.name == "compute")
    env = dict(zip("MNK", sizes, strict=True)) | {"%nctaid.x": ctas}
    if name == "non_persistent":
        ctas = env["%nctaid.x"] = evaluate(kernel.grid, env)
    for cta in range(ctas):
        filled = list(range(len(steps(name, "load", env | {"%ctaid.x": cta}, 0))))
        assert steps(name, "load", env | {"%ctaid.x": cta}, 0) == filled
        read = [steps(name, "compute", env | {"%ctaid.x": cta}, g) for g in range(groups)]
        if ring.teams == 1:
            assert read == [filled] * groups
        else:
            assert all(steps == sorted(steps) for steps in read)
            assert sorted(m for steps in read for m in steps) == filled


def steps(name: str, section: str, env: dict[str, int], group: int) -> list[int]:
    """The load steps that a section produces or consumes, in order."""
    env = dict(env)
    found: list[int] = []
    for stmt in tile_level(name).body:
        if isinstance(stmt, Section) and stmt.name != section:
            continue
        body = stmt.body if isinstance(stmt, Section) else (stmt,)
        if isinstance(stmt, Section) and stmt.group:
            env[stmt.group.name] = group
        for inner, scalars in execute(body, env):
            if isinstance(inner, (Produce, Consume)):
                found.append(evaluate(inner.step, scalars))
    return found


def test_a_stage_in_another_order_than_its_source() -> None:
    """A TMA cannot transpose; a schedule made for K-major operands meets an M-major one."""
    fusion = schedule_matmul(linear(), COOPERATIVE)
    a = fusion.tensor("T0")
    turned = fusion.updated((replace(a, allocation=a.logical[::-1]),))
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(turned), "turned")
    assert str(error.value) == (
        "a stage of T6 in the order [M, K] from T0, which is in memory as [K, M], is not "
        "supported; supported: the order of memory, contiguous dimension last. "
        "Reorder the Bulk loops of T6"
    )


@pytest.mark.parametrize("name", ["cooperative", "ping_pong"])
def test_tiles_that_are_dealt_out(name: str, golden: object) -> None:
    """Every section reads from the queue which tile is next, or that there is none."""
    kernel = lower(plan_matmul(linear(), dynamic(SMALL[name])), "dealt")
    assert verify(kernel) == []
    assert print_body(kernel.body) == golden


def test_a_load_loop_that_is_merged_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ping-pong, merged from the right: the load nest is over the same digits."""
    step_through, params = matmul._step_through, dynamic(SMALL["ping_pong"])
    expected = print_body(lower(plan_matmul(linear(), params), "k").body)

    def other(s: Schedule, tv: str, *rest: Any) -> None:
        s.merge(tv, 2)
        s.merge(tv, 1)
        step_through(s, tv, *rest)

    monkeypatch.setattr(matmul, "_step_through", other)
    scheduled = schedule_matmul(linear(), params)
    assert scheduled.tensor("T6").loop[1].label == "tile·group·k"
    assert print_body(lower(make_plan(scheduled), "k").body) == expected
