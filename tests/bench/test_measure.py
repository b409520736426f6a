"""The method on a device without a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.fakes import FakeGpu, FakeSampler
from wsched.bench.measure import Accuracy, Broken, Plan, measure_shape
from wsched.bench.problem import Problem, Shape

PROBLEM = Problem(Shape(4096, 4096, 4096))
PLAN = Plan(rounds=3, replay_ms=2)


def measure(gpu: FakeGpu, plan: Plan = PLAN) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    result = measure_shape(
        gpu,
        PROBLEM,
        dict.fromkeys(gpu.microseconds),
        plan,
        FakeSampler(),
        lambda system, step: told.append((system, step)),
    )
    return result, told


def test_times_per_launch() -> None:
    result, _ = measure(FakeGpu({"cublas": 200.0, "wsched": 190.0}, drift=0.5))
    assert result["sets"] == 2
    assert result["systems"]["cublas"] == {
        "status": "ok",
        "reason": "",
        "details": {"params": None},
        "error": 1.7e-3,
        "outliers": 0,
        "launches": 10,
        "times_us": [200.0, 300.0, 400.0],
    }
    assert result["systems"]["wsched"]["launches"] == 12
    assert result["clocks"]["watts"] == 690


def test_order_is_rotated_and_one_round_stays_queued() -> None:
    gpu = FakeGpu({"a": 100.0, "b": 100.0, "c": 100.0})
    _, told = measure(gpu)
    assert gpu.log[0] == "allocate 4096x4096x4096 2"
    assert "".join(gpu.log[7:]) == "abcbcacababc"
    reads = [(system, step) for system, step in told if step.startswith("round")]
    assert reads[:4] == [("a", "round 0"), ("b", "round 0"), ("c", "round 0"), ("b", "round 1")]


def test_what_cannot_run_is_told_and_the_others_go_on() -> None:
    times = dict.fromkeys(["cublas", "skip", "wrong", "error", "late"], 100.0)
    gpu = FakeGpu(times, {name: name for name in times if name != "cublas"})
    records = measure(gpu)[0]["systems"]
    told = {name: (r["status"], r["reason"]) for name, r in records.items()}
    wrong = "wrong result: relative error nan (limit 4e-03), 12 elements off"
    assert told == {
        "cublas": ("ok", ""),
        "skip": ("skipped", "not installed: No module named 'x'"),
        "wrong": ("wrong", wrong),
        "error": ("failed", "check: RuntimeError: an illegal memory access was encountered"),
        "late": ("wrong", f"after timing, {wrong}"),
    }
    assert records["wrong"]["error"] is None  # JSON has no NaN
    assert gpu.log.count("wrong") == 0


def test_a_lost_context_ends_the_process() -> None:
    with pytest.raises(Broken) as error:
        measure(FakeGpu({"cublas": 100.0, "x": 100.0}, {"x": "broken"}))
    assert str(error.value) == "check: RuntimeError: an illegal memory access was encountered"


def test_energy() -> None:
    result, _ = measure(FakeGpu({"cublas": 100.0}), Plan(rounds=1, replay_ms=2, energy_s=0.1))
    expected = 100e-6 * 700 / PROBLEM.shape.flops * 1e12
    assert result["systems"]["cublas"]["pj_per_flop"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("accuracy", "right"),
    [
        (Accuracy(3.9e-3, 0), True),
        (Accuracy(4e-3, 0), False),
        (Accuracy(1e-3, 1), False),
        (Accuracy(float("nan"), 0), False),
    ],
)
def test_accuracy(accuracy: Accuracy, right: bool) -> None:
    assert (accuracy.complaint(4e-3) == "") is right
