"""Workers that finish, hang, break and refuse."""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.bench.fakes import FakeSampler
from wsched.bench.gemm.worker import measure_each
from wsched.bench.method import watch
from wsched.bench.method.watch import BenchError, Enough, Job, _run, _Worker, run_process
from wsched.bench.problem import Shape

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
    assert found["environment"] == {"gpu": {"name": "fake"}}
    assert (found["seed"], found["complete"]) == (0, True)
    assert list(found["shapes"]) == ["256x256x256", "512x512x512"]
    record = found["shapes"]["256x256x256"]["systems"]["wsched"]
    assert (record["status"], record["times_us"]) == ("ok", [8.0, 8.0])
    assert after.failures == {}
    assert steps[0] == ("256x256x256", "", "inputs")
    assert found["shapes"]["512x512x512"]["clocks"] == FakeSampler().stop()


@pytest.mark.usefixtures("announced_hangs")
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
        ("lost", "round 2: unspecified launch failure"),
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
        run({"bad": {"": "draw"}})
    assert str(error.value) == "256x256x256: inputs: no random numbers"


def test_a_shape_that_does_not_fit_does_not_end_the_run() -> None:
    found, after, _ = run({"bad": {"": "memory"}})
    first, second = (found["shapes"][str(shape)]["systems"] for shape in SHAPES)
    assert {r["status"] for r in first.values()} == {"skipped"}
    assert {r["status"] for r in second.values()} == {"ok"}
    assert after.failures == {}


def test_an_interrupt_keeps_the_shapes_before_it() -> None:
    found, _, _ = run({"bad": {"": "interrupt"}})
    assert (found["complete"], list(found["shapes"])) == (False, ["256x256x256"])
    assert found["environment"] == {"gpu": {"name": "fake"}}


def test_a_worker_that_hangs_at_its_end_has_measured() -> None:
    begin = time.monotonic()
    found, after, _ = run({"end": "linger"}, timeout_s=2)
    assert time.monotonic() - begin < 30
    assert (found["complete"], len(found["shapes"]), after.failures) == (True, 2, {})


def test_work_that_is_known_to_take_long_is_no_hang() -> None:
    script = (
        "import json, time\n"
        "def write(**event): print(json.dumps(event), flush=True)\n"
        "at = {'event': 'step', 'shape': '256x256x256', 'system': 'wsched'}\n"
        "write(**at, step='round 1', seconds=SECONDS)\n"
        "time.sleep(SLEEP)\n"
        "write(**at, step='round 2', seconds=0)\n"
        "time.sleep(60)\n"
    )
    job = Job(SHAPES, "bf16", "tn", {"wsched": None}, PLAN)
    for seconds, sleep, step, patience in ((0.1, 60, "round 1", "1.2"), (30, 1.5, "round 2", "1")):
        told = script.replace("SECONDS", str(seconds)).replace("SLEEP", str(sleep))
        command = (sys.executable, "-c", told)
        told = _run(job, 1.0, lambda *_: None, command, _Worker())
        assert f"hung at '{step}': no sign of life for {patience} s" in told


def test_a_worker_may_take_its_time_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import time\n"
        "time.sleep(1.5)\n"
        'print(\'{"event": "start", "environment": {}}\', flush=True)\n'
        "time.sleep(60)\n"
    )
    job = Job(SHAPES, "bf16", "tn", {"wsched": None}, PLAN)
    command = (sys.executable, "-c", script)
    for limit, patience in ((60.0, "0.5"), (1.0, "1")):
        monkeypatch.setattr(watch, "_START_S", limit)
        worker = _Worker()
        told = _run(job, 0.5, lambda *_: None, command, worker)
        assert f"the worker hung at 'start': no sign of life for {patience} s" in told


def test_a_step_of_which_nothing_is_said_takes_no_time() -> None:
    """Of work that takes long the worker says how long; nothing else delays the verdict."""
    events: list[dict[str, Any]] = []

    def ready(item: Shape, left_out: Any, tell: Any) -> Any:
        tell("wsched", "compile")
        tell("wsched", "round 1", 2.5)
        return dict

    measure_each({"shapes": [(256, 256, 256)], "excluded": {}}, events.append, Shape, ready)
    steps = [(e["system"], e["step"], e["seconds"]) for e in events if e["event"] == "step"]
    assert steps == [("", "inputs", 0.0), ("wsched", "compile", 0.0), ("wsched", "round 1", 2.5)]


def test_a_worker_may_end_a_while_behind_its_output() -> None:
    """Its own exit status counts: it is not killed for what it does behind its last result."""
    script = "import os, time\nos.close(1)\ntime.sleep(0.3)\n"
    job = Job(SHAPES, "bf16", "tn", {"wsched": None}, PLAN)
    assert _run(job, 5.0, lambda *_: None, (sys.executable, "-c", script), _Worker()) == ""


def test_a_worker_that_does_not_start() -> None:
    with pytest.raises(BenchError) as error:
        run({"end": "crash"})
    assert str(error.value) == "worker ended with 1 (start):\nno such module"


def test_results_are_told_at_once_and_may_be_enough() -> None:
    told: list[tuple[str, str, str]] = []

    def finished(environment: dict[str, Any], shape: str, result: dict[str, Any]) -> None:
        told.append((environment["gpu"]["name"], shape, result["systems"]["wsched"]["status"]))
        raise Enough

    spec = {"times": {"cublas": 10.0, "wsched": 8.0}}
    job = Job(SHAPES, "bf16", "tn", dict.fromkeys(spec["times"]), PLAN)
    command = (sys.executable, "-m", "tests.bench.fakes", json.dumps(spec))
    found, _ = run_process(job, 30.0, lambda *_: None, command, finished=finished)
    assert told == [("fake", "256x256x256", "ok")]
    assert (list(found["shapes"]), found["complete"]) == (["256x256x256"], False)
