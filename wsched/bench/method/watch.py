"""Worker processes and their watchdog.

A kernel that hangs never gives its process back; so the worker announces every step, with the time
that its work on the GPU should take, and one that is silent for too long is killed, by its own
process id, with the step's system recorded as failed. A fresh worker goes on with the shapes that
are left, without that system at that shape.
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
from dataclasses import astuple, dataclass, field, replace
from typing import IO, Any

from lowering.ground.errors import UnsupportedError, WschedError
from wsched.bench.method.turns import Alone, Enough

__all__ = ["COMMAND", "BenchError", "Enough", "Finished", "Job", "Progress", "run_process"]

COMMAND = (sys.executable, "-m", "wsched.bench.gemm.worker")

_SLACK = 2.0
"""A step may take so many times as long as its work took before; clocks fall under load."""

_START_S = 60.0
"""A worker may be silent so long until it has loaded what it needs, torch most of all: a machine
that is busy takes its time for that, and no kernel has run yet that could hang.
"""

_ALONE = Alone()

Progress = Callable[[str, str, str], None]
"""Shows what the worker does: (shape, system, step)."""

Finished = Callable[[dict[str, Any], str, dict[str, Any]], None]
"""Takes a shape's result as soon as it is there: (environment, shape, result). It may raise
:class:`~wsched.bench.method.turns.Enough`."""


class BenchError(WschedError):
    """The benchmark cannot go on: a worker failed outside of any system."""


def _unheeded(environment: dict[str, Any], shape: str, result: dict[str, Any]) -> None:
    """Leave a result to the end."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one process measures.

    Args:
        shapes: in order: shapes, or other dataclasses, under whose text results stand.
        dtype: see :data:`wsched.bench.problem.DTYPES`.
        layout: see :data:`wsched.bench.problem.LAYOUTS`.
        systems: name -> ``MatmulParams`` as a dict, None for peers and for wsched's heuristics.
        plan: fields of :class:`wsched.bench.method.measure.Plan`.
        seed: of the operands and of the order in the rounds.
        failures: shape text -> system -> why it is not measured there any more.
    """

    shapes: tuple[Any, ...]
    dtype: str
    layout: str
    systems: dict[str, dict[str, Any] | None]
    plan: dict[str, Any]
    seed: int = 0
    failures: dict[str, dict[str, str]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the job as the worker reads it."""
        return {
            "shapes": [list(astuple(s)) for s in self.shapes],
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
    seconds: float = 0.0
    broken: str = ""
    environment: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    finished: Finished = _unheeded


def run_process(
    job: Job,
    timeout_s: float,
    progress: Progress,
    command: Sequence[str] = COMMAND,
    *,
    finished: Finished = _unheeded,
    turn: Alone = _ALONE,
) -> tuple[dict[str, Any], Job]:
    """Measure all shapes of a job, in one process unless a system hangs or breaks it.

    Args:
        job: what to measure.
        timeout_s: longest silence of a worker, beside the time that its step should take; it has a
            minute to start.
        progress: told of every step.
        command: the worker; tests have others.
        finished: told of every result.
        turn: of the worker, where there are others.

    Returns:
        ``{"seed", "complete", "environment", "shapes": {shape: result}}``, and the job with the
        failures added, so that the next process does not run into them again. After an interrupt
        (Ctrl-C) or :class:`Enough` it is not complete, and has the shapes that were measured until
        then.

    Raises:
        UnsupportedError: there is no GPU to measure on.
        BenchError: a worker failed outside of any system.
    """
    found: dict[str, Any] = {"seed": job.seed, "complete": False, "environment": {}, "shapes": {}}
    left = job
    while left.shapes:
        worker = _Worker(finished=finished)
        try:
            reason = _run(left, timeout_s, progress, command, worker, turn)
            turn.hold()
        except (KeyboardInterrupt, Enough):
            _fold(worker, job, found)
            return found, job
        _fold(worker, job, found)
        left = replace(job, shapes=tuple(s for s in job.shapes if str(s) not in found["shapes"]))
        if not left.shapes:
            break  # all is measured, however the worker ended
        if not worker.system or worker.system in job.failures.get(worker.shape, {}):
            reason = reason or "the worker ended before it had measured all shapes"
            raise BenchError(f"{worker.shape}: {reason}" if worker.shape else reason)
        job = job.without(worker.shape, worker.system, reason)
        left = replace(left, failures=job.failures)
    return found | {"complete": True}, job


def _fold(worker: _Worker, job: Job, found: dict[str, Any]) -> None:
    """Add what a worker measured to what is found, with the systems that it was not asked for."""
    found["environment"] = found["environment"] or worker.environment
    for shape, result in worker.results.items():
        for system, why in job.failures.get(shape, {}).items():
            result["systems"][system] = {"status": "failed", "reason": why}
        found["shapes"][shape] = result


def _run(
    job: Job,
    timeout_s: float,
    progress: Progress,
    command: Sequence[str],
    worker: _Worker,
    turn: Alone = _ALONE,
) -> str:
    """Run one worker to its end; why it did not finish, empty if it did."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            _write(process, json.dumps(job.to_dict() | {"turns": turn.announced}))
            hung = _follow(process, timeout_s, progress, worker, turn)
        finally:
            if process.poll() is None:
                process.kill()
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
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


def _write(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    # A worker that died before it read says so with its exit status.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(line + "\n")
        process.stdin.flush()


def _follow(
    process: subprocess.Popen[str],
    timeout_s: float,
    progress: Progress,
    worker: _Worker,
    turn: Alone,
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
    turn.hold(process)
    begun = False
    while True:
        patience = timeout_s + _SLACK * worker.seconds if begun else max(timeout_s, _START_S)
        try:
            line = _heard(lines, patience)
            if line is None:
                # With its output closed a worker can still hang, where CUDA ends its context.
                process.wait(timeout=timeout_s)
                return ""
        except (queue.Empty, subprocess.TimeoutExpired):
            at = f"{worker.shape}: {worker.system}" if worker.system else "the worker"
            return worker.broken or (
                f"{at} hung at '{worker.step}': no sign of life for {patience:g} s, "
                f"process {process.pid} killed"
            )
        begun = True
        event = json.loads(line)
        if event["event"] == "prepared":
            turn.come()
            _write(process, "")
        else:
            _take(event, worker, progress)


def _heard(lines: queue.Queue[str | None], seconds: float) -> str | None:
    """The next line of a worker, None at its end; ``queue.Empty`` after that much silence."""
    return lines.get(timeout=seconds)


def _take(event: dict[str, Any], worker: _Worker, progress: Progress) -> None:
    """Fold an event into the worker's state."""
    kind = event["event"]
    if kind == "refused":
        raise UnsupportedError(f"wsched bench here ({event['reason']})", "a CUDA GPU with torch")
    if kind == "start":
        worker.environment = event["environment"]
    elif kind == "shape":
        worker.results[event["shape"]] = event["result"]
        worker.shape, worker.system, worker.step, worker.seconds = "", "", "next shape", 0.0
        worker.finished(worker.environment, event["shape"], event["result"])
    else:
        worker.shape, worker.system = event["shape"], event["system"]
        if kind == "broken":
            worker.broken = f"{worker.step}: {event['reason']}"
        else:
            worker.step, worker.seconds = event["step"], event["seconds"]
            progress(worker.shape, worker.system, worker.step)


def _tail(errors: IO[str]) -> str:
    """The last lines of the worker's standard error."""
    errors.seek(0)
    return "\n".join(errors.read().splitlines()[-12:])
