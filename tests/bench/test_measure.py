"""The method on a device without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.bench.fakes import ERRORS, FakeGpu, FakeSampler
from wsched.bench.method.measure import Accuracy, Broken, Plan, measure_shape
from wsched.bench.method.statistic import orders
from wsched.bench.problem import Problem, Shape

PROBLEM = Problem(Shape(4096, 4096, 4096))
PLAN = Plan(rounds=3, replay_ms=2)


@dataclass
class Told:
    """Keeps what was told, and among the replays of the log which system would be blamed."""

    gpu: FakeGpu
    steps: list[tuple[str, str, float]]

    def __call__(self, system: str, step: str, seconds: float = 0.0) -> None:
        self.steps.append((system, step, seconds))
        self.gpu.log.append(f"tell {system}")


def measure(
    gpu: FakeGpu, plan: Plan = PLAN, seed: int = 0
) -> tuple[dict[str, Any], list[tuple[str, str, float]]]:
    told: list[tuple[str, str, float]] = []
    result = measure_shape(
        gpu,
        PROBLEM,
        dict.fromkeys(gpu.microseconds),
        plan,
        FakeSampler(),
        Told(gpu, told),
        seed,
    )
    return result, told


def test_times_per_launch() -> None:
    result, _ = measure(FakeGpu({"cublas": 200.0, "wsched": 190.0}, drift=0.5))
    assert result["sets"] == 3
    assert result["systems"]["cublas"] == {
        "status": "ok",
        "reason": "",
        "details": {"params": None},
        "error": 1.7e-3,
        "outliers": 0,
        "launches": 12,
        "times_us": [200.0, 300.0, 400.0],
    }
    assert result["systems"]["wsched"]["launches"] == 12
    assert result["clocks"]["watts"] == 690


def test_order_is_drawn_from_the_seed() -> None:
    gpu = FakeGpu(dict.fromkeys("abcd", 100.0))
    result, told = measure(gpu, seed=7)
    assert gpu.log[0] == "allocate 4096x4096x4096 3"
    assert result["orders"] == orders(list("abcd"), 4, "7 4096x4096x4096")
    played = [word for word in gpu.log if word in gpu.microseconds][8:]  # 2 each find the length
    assert played == [name for order in result["orders"] for name in order]
    read = [(step, system) for system, step, _ in told if step.startswith("round")]
    rounds = enumerate(result["orders"])
    assert read == [(f"round {turn}", name) for turn, order in rounds for name in order]
    assert measure(FakeGpu(gpu.microseconds), seed=8)[0]["orders"] != result["orders"]


def outstanding(log: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the system that would be blamed and what is queued, wherever the host may block."""
    told, queued = "", []
    for word in log:
        kind, _, system = word.rpartition(" ")
        if kind == "tell":
            told = system
        elif kind == "wait":
            yield told, list(queued)
            queued.remove(system)
        elif not kind:
            yield told, list(queued) or [system]
            queued.append(system)


def test_who_is_told_is_who_runs_whenever_the_host_may_block() -> None:
    gpu = FakeGpu(dict.fromkeys("abc", 100.0))
    measure(gpu, Plan(rounds=3, replay_ms=2, energy_s=0.02))
    blocked = list(outstanding(gpu.log))
    assert all(told == queued[0] for told, queued in blocked)
    assert max(len(queued) for _, queued in blocked) == 2  # the GPU never idles between two


def test_each_step_of_a_system_is_told_before_it_begins() -> None:
    """What hangs or ends the process is named by the step that was told last."""
    _, told = measure(FakeGpu({"a": 100.0, "b": 100.0}), Plan(rounds=1, replay_ms=2))
    entering = [
        "compile", "check", "capture", "first replay", "second replay", "capture of all launches",
    ]  # fmt: skip
    for name in "ab":
        steps = [step for system, step, _ in told if system == name]
        assert steps == [*entering, "round 0", "round 1", "check after timing"]


def test_a_replay_is_told_with_its_time() -> None:
    _, told = measure(FakeGpu({"a": 100.0, "b": 300.0}), Plan(3, 2.0, energy_s=0.01))
    timed = [t for t in told if t[1].startswith(("round", "energy"))]
    replays = {(name, round(seconds, 9)) for name, _, seconds in timed}
    assert replays == {("a", 21e-4), ("b", 27e-4)}
    energy = [step for system, step, _ in told if system == "b" and step.startswith("energy")]
    assert energy == ["energy", *(f"energy, replay {i} of 4" for i in range(1, 5))]
    assert ("check after timing", 27e-4) in [(step, round(s, 9)) for _, step, s in told]


def test_a_shape_that_does_not_fit_is_skipped() -> None:
    result, told = measure(FakeGpu({"cublas": 100.0, "wsched": 90.0}, {"": "memory"}))
    reason = (
        "out of memory for 3 sets of 100663296 bytes: "
        "CUDA out of memory. Tried to allocate 96.00 GiB."
    )
    skipped = {"status": "skipped", "reason": reason, "details": {}}
    assert result["systems"] == {"cublas": skipped, "wsched": skipped}
    assert (told, result["clocks"]["samples"]) == ([], 0)


def test_what_cannot_run_is_told_and_the_others_go_on() -> None:
    bad = ["skip", "unsupported", "schedule", "internal", "import", "wrong", "error", "late"]
    times = dict.fromkeys(["cublas", *bad], 100.0)
    gpu = FakeGpu(times, {name: name for name in times if name != "cublas"})
    records = measure(gpu)[0]["systems"]
    told = {name: (r["status"], r["reason"]) for name, r in records.items()}
    wrong = "wrong result: relative error nan (limit 4e-03), 12 elements off"
    assert told == {
        "cublas": ("ok", ""),
        "skip": ("skipped", "not installed: there is no module x"),
        "unsupported": ("skipped", "split-K is not supported; supported: no split"),
        "schedule": ("failed", "compile: ScheduleError[smem]: stages=9: too much"),
        "internal": ("failed", "compile: InternalError: verify: a barrier without a wait"),
        "import": (
            "failed",
            "compile: ImportError: x is installed, but cannot be imported: there is no module x.y",
        ),
        "wrong": ("wrong", wrong),
        "error": ("failed", "check: RuntimeError: an illegal memory access was encountered"),
        "late": ("wrong", f"after timing, {wrong}"),
    }
    assert records["wrong"]["error"] is None  # JSON has no NaN
    assert gpu.log.count("wrong") == 0
    assert records["internal"]["details"] == {"failure": str(ERRORS["internal"])}


def test_a_lost_context_ends_the_process() -> None:
    with pytest.raises(Broken) as error:
        measure(FakeGpu({"cublas": 100.0, "x": 100.0}, {"x": "broken"}))
    assert str(error.value) == "check: RuntimeError: an illegal memory access was encountered"


def test_energy() -> None:
    """Of replays behind one that warms up; the counter stands for nothing else."""
    gpu = FakeGpu({"cublas": 100.0})
    result, told = measure(gpu, Plan(rounds=1, replay_ms=2, energy_s=0.1))
    (counted,) = (len(told) - at for at, (_, step, _) in enumerate(told, 1) if step == "energy")
    rounds_and_length = 2 + 2
    assert gpu.log.count("cublas") == rounds_and_length + 1 + counted
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
