"""The ten rungs: one decision after the other, and a right kernel for each."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.on_machine import Problem
from tests.rungs import NUMBERS, kernel, ran, scheduled
from tests.tiers import dealt
from wsched import Schedule
from wsched.front.own import kernel_of
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


@pytest.mark.parametrize("number", [7, 8])
def test_rungs_that_another_target_has(number: int) -> None:
    """The same decisions where sums are in tensor memory: a part more, for the epilogue."""
    found = kernel_of(scheduled(number, "sm_100a"), proof=False)
    assert [p.name for p in found.plan.parts] == ["load", "compute", "epilogue"]
    ran(found, PROBLEMS["tails"], number)
    assert found.resources.clean


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (2, "2 parts that compute, with Pipelined loads"),
        (9, "stages of ring that CTAs of a cluster share, read by tcgen05"),
    ],
)
def test_rungs_that_another_target_has_not(number: int, why: str) -> None:
    s = scheduled(number, "sm_100a")
    with pytest.raises(UnsupportedError, match=why):
        kernel_of(s, proof=False)


def test_a_decision_that_is_none() -> None:
    with pytest.raises(ScheduleError, match="box"):
        decide(Schedule(DEFINITION), Decisions(slice=24)).plan()
