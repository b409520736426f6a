"""The ten rungs: one decision after the other, and a right kernel for each."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import pytest

from lowering.ground.errors import ScheduleError
from tests.on_machine import Problem
from tests.rungs import NUMBERS, kernel, ran
from tests.tiers import dealt
from wsched import Schedule
from wsched.ladder.decisions import Decisions, decide
from wsched.ladder.rungs import DEFINITION, RUNGS, changed

PROBLEMS = {
    "tails": Problem(520, 264, 200, 2),
    "one_tile": Problem(40, 24, 72, 3),
    "no_k": Problem(136, 72, 0, 4),
}


def test_each_rung_is_one_decision() -> None:
    assert len(RUNGS) == 10
    steps = [changed(a.decided, b.decided) for a, b in pairwise(RUNGS)]
    assert steps == [
        ("slice",), ("grid",), ("copies",), ("stages",), ("grid",), ("load_warps",), ("stages",),
        ("cluster",), ("consumers",),
    ]  # fmt: skip


def test_what_changed_names_every_field() -> None:
    other = Decisions(32, RUNGS[-1].decided.grid, RUNGS[-1].decided.copies, 3, True, 2, 2)
    assert changed(Decisions(), other) == tuple(f.name for f in fields(Decisions))


@pytest.mark.parametrize(("number", "kind"), dealt(NUMBERS, list(PROBLEMS)))
def test_integers_are_exact(number: int, kind: str) -> None:
    ran(kernel(number), PROBLEMS[kind], number)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", NUMBERS)
def test_kernels_are_proved_and_do_not_spill(number: int) -> None:
    assert kernel(number).proof().proved
    found = kernel(number).resources
    assert found.spill_stores == found.spill_loads == found.stack == 0


def test_warps_stages_and_clusters() -> None:
    found = [
        (k.kernel.threads, k.plan.operands.buffer.stages, k.kernel.cluster)
        for k in map(kernel, NUMBERS)
    ]
    assert found == [
        (128, 1, 1), (128, 1, 1), (128, 1, 1), (128, 1, 1), (128, 2, 1), (128, 2, 1), (256, 2, 1),
        (256, 4, 1), (256, 4, 2), (384, 4, 2),
    ]  # fmt: skip


def test_grids() -> None:
    assert [str(kernel(n).kernel.grid) for n in (1, 2)] == ["1", "1"]
    assert str(kernel(3).kernel.grid) == "ceildiv(M, 128) * ceildiv(N, 128)"
    assert "sms" in str(kernel(6).kernel.grid)


@pytest.mark.parametrize(("number", "kind"), dealt(NUMBERS, list(PROBLEMS)))
def test_integers_are_exact_in_tensor_memory(number: int, kind: str) -> None:
    """The same decisions on the other target, where sums of nothing are zeros too."""
    ran(kernel(number, "sm_100a"), PROBLEMS[kind], number)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", NUMBERS)
def test_kernels_in_tensor_memory_are_proved_and_do_not_spill(number: int) -> None:
    found = kernel(number, "sm_100a")
    assert found.proof().proved and found.resources.clean


def test_parts_in_tensor_memory() -> None:
    """Where warps load, others read the sums than issue the products."""
    one, ahead = ["compute"], ["load", "compute"]
    found = [[p.name for p in kernel(n, "sm_100a").plan.parts] for n in NUMBERS]
    assert found == [one] * 4 + [ahead] * 2 + [[*ahead, "epilogue"]] * 4


def test_pairs_multiply_together() -> None:
    """Where an instruction may be that of two CTAs, a stage has half of what they share."""
    found = [kernel(n, "sm_100a") for n in (8, 9, 10)]
    assert [k.kernel.target.mma.ctas for k in found] == [1, 2, 2]
    assert [k.kernel.shared_bytes // 1024 for k in found] == [144, 112, 192]


def test_a_decision_that_is_none() -> None:
    with pytest.raises(ScheduleError, match="box"):
        decide(Schedule(DEFINITION), Decisions(slice=24)).plan()
