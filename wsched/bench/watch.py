"""Worker processes and their watchdog.

A kernel that hangs never gives its process back; so the worker announces every step, and one that
is silent for too long is killed, by its own process id, with the step's system recorded as failed.
A fresh worker goes on with the shapes that are left, without that system at that shape.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

from lowering.errors import UnsupportedError, WschedError
from wsched.bench.problem import Shape

__all__ = ["COMMAND", "BenchError", "Job", "Progress", "run_process"]

COMMAND = (sys.executable, "-m", "wsched.bench.worker")

Progress = Callable[[str, str, str], None]
"""Shows what the worker does: (shape, system, step)."""


class BenchError(WschedError):
    """The benchmark cannot go on: a worker failed outside of any system."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one process measures.

    Args:
        shapes: in order.
        dtype: see :data:`wsched.bench.problem.DTYPES`.
        layout: see :data:`wsched.bench.problem.LAYOUTS`.
        systems: name -> ``MatmulParams`` as a dict, None for peers and for wsched's heuristics.
        plan: fields of :class:`wsched.bench.measure.Plan`.
        seed: of the operands.
        failures: shape text -> system -> why it is not measured there any more.
    """

    shapes: tuple[Shape, ...]
    dtype: str
    layout: str
    systems: dict[str, dict[str, Any] | None]
    plan: dict[str, Any]
    seed: int = 0
    failures: dict[str, dict[str, str]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the job as the worker reads it."""
        return {
            "shapes": [[s.m, s.n, s.k] for s in self.shapes],
            "dtype": self.dtype,
            "layout": self.layout,
            "systems": self.systems,
            "plan": self.plan,
            "seed": self.seed,
            "excluded": {shape: list(names) for shape, names in self.failures.items()},
        }

    def without(self, shape: str, system: str, reason: str) -> Job:
        """Return the job that leaves a system out at a shape."""
        failures = {s: dict(names) for s, names in self.failures.items()}
        failures.setdefault(shape, {})[system] = reason
        return replace(self, failures=failures)


@dataclass(slots=True)
class _Worker:
    """State of a running worker, as its events tell it."""

    shape: str = ""
    system: str = ""
    step: str = "start"
    broken: str = ""
    start: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)


def run_process(
    job: Job, timeout_s: float, progress: Progress, command: Sequence[str] = COMMAND
) -> tuple[dict[str, Any], Job]:
    """Measure all shapes of a job, in one process unless a system hangs or breaks it.

    Args:
        job: what to measure.
        timeout_s: longest silence of a worker.
        progress: told of every step.
        command: the worker; tests have others.

    Returns:
        ``{"device", "versions", "shapes": {shape: result}}``, and the job with the failures added,
        so that the next process does not run into them again.

    Raises:
        UnsupportedError: there is no GPU to measure on.
        BenchError: a worker failed outside of any system.
    """
    found: dict[str, Any] = {"device": {}, "versions": {}, "shapes": {}}
    left = job
    while left.shapes:
        worker = _Worker()
        reason = _run(left, timeout_s, progress, command, worker)
        found |= worker.start
        for shape, result in worker.results.items():
            failed = job.failures.get(shape, {})
            for system, why in failed.items():
                result["systems"][system] = {"status": "failed", "reason": why}
            found["shapes"][shape] = result
        if not reason:
            break
        if not worker.system or worker.system in job.failures.get(worker.shape, {}):
            raise BenchError(f"{worker.shape}: {reason}" if worker.shape else reason)
        job = job.without(worker.shape, worker.system, reason)
        left = replace(job, shapes=tuple(s for s in job.shapes if str(s) not in found["shapes"]))
    return found, job


def _run(
    job: Job, timeout_s: float, progress: Progress, command: Sequence[str], worker: _Worker
) -> str:
    """Run one worker to its end; why it did not finish, empty if it did."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            _send(process, job)
            hung = _follow(process, timeout_s, progress, worker)
        finally:
            if process.poll() is None:
                process.kill()
            # A process that the driver holds may outlive its kill; it is not waited for.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
        if hung:
            return hung
        if worker.broken:
            return worker.broken
        if process.returncode != 0:
            at = f"{worker.system} at {worker.shape}, {worker.step}" if worker.system else "start"
            return f"worker ended with {process.returncode} ({at}):\n{_tail(errors)}"
    return ""


def _send(process: subprocess.Popen[str], job: Job) -> None:
    assert process.stdin is not None
    # A worker that died before it read says so with its exit status.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(job.to_dict()))
        process.stdin.close()


def _follow(
    process: subprocess.Popen[str], timeout_s: float, progress: Progress, worker: _Worker
) -> str:
    """Take events until the worker's end or its silence; a text for the silence."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read(stream: IO[str]) -> None:
        with stream:
            for line in stream:
                lines.put(line)
        lines.put(None)

    assert process.stdout is not None
    threading.Thread(target=read, args=(process.stdout,), daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=timeout_s)
        except queue.Empty:
            at = f"{worker.shape}: {worker.system}" if worker.system else "the worker"
            return (
                f"{at} hung at '{worker.step}': no sign of life for {timeout_s:g} s, "
                f"process {process.pid} killed"
            )
        if line is None:
            process.wait()
            return ""
        _take(json.loads(line), worker, progress)


def _take(event: dict[str, Any], worker: _Worker, progress: Progress) -> None:
    """Fold an event into the worker's state."""
    kind = event["event"]
    if kind == "refused":
        raise UnsupportedError(f"wsched bench here ({event['reason']})", "a CUDA GPU with torch")
    if kind == "start":
        worker.start = {"device": event["device"], "versions": event["versions"]}
    elif kind == "shape":
        worker.results[event["shape"]] = event["result"]
        worker.shape, worker.system, worker.step = "", "", "next shape"
    else:
        worker.shape, worker.system = event["shape"], event["system"]
        if kind == "broken":
            worker.broken = f"{worker.step}: {event['reason']}"
        else:
            worker.step = event["step"]
            progress(worker.shape, worker.system, worker.step)


def _tail(errors: IO[str]) -> str:
    """The last lines of the worker's standard error."""
    errors.seek(0)
    return "\n".join(errors.read().splitlines()[-12:])
