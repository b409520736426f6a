"""Workers that finish, hang, break and refuse."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from lowering.errors import UnsupportedError
from tests.bench.fakes import FakeSampler
from wsched.bench.problem import Shape
from wsched.bench.watch import BenchError, Job, run_process

SHAPES = (Shape(256, 256, 256), Shape(512, 512, 512))
PLAN = {"rounds": 2, "replay_ms": 0.1, "energy_s": 0}


def run(
    spec: dict[str, Any], timeout_s: float = 30.0, failures: dict[str, dict[str, str]] | None = None
) -> tuple[dict[str, Any], Job, list[tuple[str, str, str]]]:
    times = spec.setdefault("times", {"cublas": 10.0, "wsched": 8.0})
    job = Job(SHAPES, "bf16", "tn", dict.fromkeys(times), PLAN, failures=failures or {})
    steps: list[tuple[str, str, str]] = []
    command = (sys.executable, "-m", "tests.bench.fakes", json.dumps(spec))
    found, after = run_process(job, timeout_s, lambda *step: steps.append(step), command)
    return found, after, steps


def test_all_shapes_in_one_process() -> None:
    found, after, steps = run({})
    assert found["device"] == {"name": "fake"}
    assert list(found["shapes"]) == ["256x256x256", "512x512x512"]
    record = found["shapes"]["256x256x256"]["systems"]["wsched"]
    assert (record["status"], record["times_us"]) == ("ok", [8.0, 8.0])
    assert after.failures == {}
    assert steps[0] == ("256x256x256", "", "inputs")
    assert found["shapes"]["512x512x512"]["clocks"] == FakeSampler().stop()


def test_a_hang_is_killed_named_and_left_out() -> None:
    found, after, _ = run({"bad": {"wsched": "hang"}}, timeout_s=3)
    first, second = (found["shapes"][str(shape)]["systems"] for shape in SHAPES)
    assert [s["cublas"]["status"] for s in (first, second)] == ["ok", "ok"]
    told = re.sub(r"\d+ killed", "N killed", first["wsched"]["reason"])
    assert told == (
        "256x256x256: wsched hung at 'check': no sign of life for 3 s, process N killed"
    )
    assert (first["wsched"]["status"], second["wsched"]["status"]) == ("failed", "ok")
    assert set(after.failures) == {"256x256x256"}


def test_known_failures_are_not_tried_again() -> None:
    failures = {str(shape): {"wsched": "hung"} for shape in SHAPES}
    found, _, steps = run({"bad": {"wsched": "hang"}}, failures=failures)
    assert {system for _, system, _ in steps} == {"", "cublas"}
    record = found["shapes"]["512x512x512"]["systems"]["wsched"]
    assert record == {"status": "failed", "reason": "hung"}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("broken", "check: check: RuntimeError: an illegal memory access was encountered"),
        ("lost", "round 1: unspecified launch failure"),
    ],
)
def test_a_broken_context_starts_a_fresh_process(kind: str, reason: str) -> None:
    found, _, _ = run({"bad": {"wsched": kind}})
    for shape in SHAPES:
        records = found["shapes"][str(shape)]["systems"]
        assert records["cublas"]["status"] == "ok"
        assert records["wsched"] == {"status": "failed", "reason": reason}


def test_no_gpu() -> None:
    with pytest.raises(UnsupportedError) as error:
        run({"end": "refused"})
    assert str(error.value) == (
        "wsched bench here (torch.cuda finds no GPU) is not supported; "
        "supported: a CUDA GPU with torch"
    )


def test_an_error_of_no_system() -> None:
    with pytest.raises(BenchError) as error:
        run({"bad": {"": "memory"}})
    assert str(error.value) == "256x256x256: inputs: CUDA out of memory"


def test_a_worker_that_does_not_start() -> None:
    with pytest.raises(BenchError) as error:
        run({"end": "crash"})
    assert str(error.value) == "worker ended with 1 (start):\nno such module"
