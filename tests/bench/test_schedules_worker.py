"""Both stages, on a device without a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.fake_schedules import RankedGpu, ranked_here
from tests.bench.fakes import FakeSampler
from wsched.bench.method.gpu import CudaGpu
from wsched.bench.method.measure import Plan
from wsched.bench.problem import Problem, Shape
from wsched.bench.schedules.worker import FIRST, measure_ranking, run_ranking_job

PROBLEM = Problem(Shape(512, 4096, 1024))
PLAN = Plan(rounds=3, replay_ms=2)
# The first is the slowest by far; the others are as predicted, but the fourth is the fastest.
FACTORS = [100.0, 1.0, 1.0, 0.01]


def measure(gpu: RankedGpu, excluded: tuple[str, ...] = ()) -> tuple[dict[str, Any], list[str]]:
    told: list[str] = []
    found = ranked_here(PROBLEM)
    result = measure_ranking(
        gpu, PROBLEM, found, excluded, PLAN, FakeSampler(),
        lambda system, step, seconds=0.0: told.append(step), 0,
    )  # fmt: skip
    return result, told


def test_the_fastest_and_the_choice_run_again() -> None:
    found = ranked_here(PROBLEM)
    assert len(found) > FIRST.finalists + 2
    result, told = measure(RankedGpu(FACTORS, {}, {}))
    records = result["systems"]
    assert list(records) == [r.name for r in found]
    assert [r["rank"] for r in records.values()] == list(range(1, len(found) + 1))
    assert all(r["status"] == "ok" for r in records.values())
    measured = {r.name: r.us * f for r, f in zip(found, FACTORS + [1.0] * 999, strict=False)}
    assert {n: r["first_us"] for n, r in records.items()} == pytest.approx(measured)
    fastest = sorted(measured, key=measured.__getitem__)[: FIRST.finalists]
    again = [n for n, r in records.items() if "times_us" in r]
    assert set(again) == {found[0].name, *fastest}
    assert result["choice"] == found[0].name not in fastest
    assert records[found[3].name]["times_us"] == pytest.approx([measured[found[3].name]] * 3)
    assert records[found[3].name]["details"] == {"params": found[3].params.to_dict()}
    assert result["clocks"] == FakeSampler().stop()
    rounds = [step for step in told if "round" in step]
    assert rounds[0] == "all: round 0" and rounds[-1] == "best: round 3"
    assert "all: round 3" not in rounds


def test_energy_is_left_to_the_second_stage() -> None:
    """There are far more systems in the first one, and each would run alone for as long."""
    short = FIRST.shortened(Plan(rounds=8, replay_ms=10.0, energy_s=2.0))
    assert short == Plan(rounds=2, replay_ms=2.0, energy_s=0.0)


def test_what_fails_or_is_excluded_does_not_run_again() -> None:
    found = ranked_here(PROBLEM)
    result, _ = measure(RankedGpu(FACTORS, {3: "wrong", 1: "skip"}, {}), (found[2].name,))
    records = result["systems"]
    assert found[2].name not in records
    assert [records[found[i].name]["status"] for i in (0, 1, 3, 4)] == [
        "ok", "skipped", "wrong", "ok",
    ]  # fmt: skip
    assert all("first_us" not in records[found[i].name] for i in (1, 3))


def test_wrong_after_timing() -> None:
    found = ranked_here(PROBLEM)
    result, _ = measure(RankedGpu([0.5], {0: "late"}, {}))
    assert result["systems"][found[0].name]["status"] == "wrong"


def test_no_memory() -> None:
    result, _ = measure(RankedGpu([], {}, {"": "memory"}))
    assert {r["status"] for r in result["systems"].values()} == {"skipped"}


def test_a_lost_context_is_told() -> None:
    events: list[dict[str, Any]] = []
    job = {
        "shapes": [[512, 4096, 1024], [16, 512, 512]], "dtype": "bf16", "layout": "tn",
        "plan": {"rounds": 1, "replay_ms": 0.1}, "excluded": {}, "seed": 0,
    }  # fmt: skip
    run_ranking_job(job, 2, RankedGpu([], {1: "broken"}, {}), FakeSampler(), events.append)
    assert events[-1] == {
        "event": "broken",
        "shape": "512x4096x1024",
        "system": ranked_here(PROBLEM)[1].name,
        "reason": "check: RuntimeError: an illegal memory access was encountered",
    }
    assert {e["event"] for e in events[:-1]} == {"step"}


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    events: list[dict[str, Any]] = []
    job = {
        "shapes": [[264, 520, 328]], "dtype": "bf16", "layout": "tn",
        "plan": {"rounds": 2, "replay_ms": 1}, "excluded": {}, "seed": 0,
    }  # fmt: skip
    run_ranking_job(job, 3, CudaGpu(0), FakeSampler(), events.append)
    records = events[-1]["result"]["systems"]
    assert [(r["status"], len(r["times_us"])) for r in records.values()] == [("ok", 2)] * 3
