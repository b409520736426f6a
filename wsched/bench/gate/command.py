"""``wsched bench gate``: kernels built, then processes beside cuBLAS, then a verdict."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.bench.drawn.build import build
from wsched.bench.drawn.command import device
from wsched.bench.drawn.schedules import schedules_for
from wsched.bench.gate.problems import PROBLEMS
from wsched.bench.gate.results import Measured, baseline_of, read, write, write_head
from wsched.bench.gate.verdict import EACH, FEWEST, MEAN, Limits, Verdict, judged
from wsched.bench.gemm.results import check_path
from wsched.bench.method.bar import progress_bar
from wsched.bench.method.measure import METHOD, Plan
from wsched.bench.method.problem import definition_text
from wsched.bench.method.shapes_run import INTERRUPTED, run_shapes
from wsched.bench.method.watch import Job
from wsched.bench.schedules.ranking import problem_for
from wsched.choose.problem import GPUS

__all__ = ["COMMAND", "SLOWER", "UNSURE", "gate"]

COMMAND = (sys.executable, "-m", "wsched.bench.drawn.worker", "0")
"""The worker, told to measure what is taken and nothing else."""

SLOWER, UNSURE, STOPPED = 1, 3, 130
"""Exit statuses."""


def gate(
    json_path: Path = typer.Option(
        ..., "--json", help="Append a line for each problem; what it has is not measured again."
    ),
    baseline: Path | None = typer.Option(
        None, help="A file of an earlier run, in place of the one that wsched has for the GPU."
    ),
    record: bool = typer.Option(
        False, "--record", help="Only measure: the file is the baseline of later runs."
    ),
    gpu: str = typer.Option("H200", help="What kernels are built for: " + ", ".join(GPUS)),
    processes: int = typer.Option(6, min=FEWEST, help="Fresh processes, as far as time allows."),
    seconds: float = typer.Option(600.0, min=0.0, help="Begin no problem after so many; 0: all."),
    mean: float = typer.Option(MEAN, help="Share of the geometric mean that may be lost."),
    each: float = typer.Option(EACH, help="Share that one problem may lose."),
    rounds: int = typer.Option(8, min=1, help="Counted rounds of a process."),
    replay_ms: float = typer.Option(10.0, min=0.1, help="Time of a system in a round."),
    timeout: float = typer.Option(60.0, min=1.0, help="Seconds of silence until a hang is told."),
    jobs: int = typer.Option(0, min=0, help="Processes that compile; 0: one for each processor."),
) -> None:
    """Say whether wsched is as fast beside cuBLAS as it was.

    Kernels are built before the GPU is asked for anything. A run that was cut off, or that is
    unsure, goes on with the same file. The exit status is 0 if all is as fast, 1 if something is
    slower, wrong or refused, 3 if the noise does not allow to say, 130 after Ctrl-C.
    """
    check_path(json_path)
    plan = Plan(rounds, replay_ms)
    command = {"plan": asdict(plan), "problems": [str(p) for p in PROBLEMS]}
    known = GPUS.get(gpu)
    if known is None:
        raise UnsupportedError(f"--gpu {gpu}", ", ".join(GPUS))
    before = None if record else _baseline(baseline or baseline_of(known.name), known.name)
    found = read(json_path)
    if found.command not in ({}, command):
        raise UnsupportedError(
            f"--json {json_path} of a run with other options ({json.dumps(found.command)})",
            json.dumps(command),
        )
    stopped = ""
    if len(found.complete(_names())) < processes:
        _compile({"name": known.name, "sms": known.sms, "l2_bytes": known.l2_bytes}, jobs)
        if (there := device()["name"]) != known.name:
            raise UnsupportedError(f"--gpu {gpu} where there is {there}", f"a {known.name}")
        stopped = _measure(json_path, command, plan, processes, (seconds, timeout))
        found = read(json_path)
    _end(found, before, Limits(mean, each), stopped)


def _names() -> tuple[str, ...]:
    return tuple(map(str, PROBLEMS))


def _baseline(path: Path, gpu: str) -> Measured:
    """A baseline, known to be of this GPU and to say something.

    Raises:
        UnsupportedError: it is missing, or of another GPU, or of too few processes.
    """
    if not path.exists():
        raise UnsupportedError(
            f"no baseline {path}", "--baseline FILE, or --record to measure without one"
        )
    before = read(path)
    if before.gpu.get("name") != gpu:
        raise UnsupportedError(f"a baseline of {before.gpu.get('name')}", f"one of {gpu}")
    return before


def _compile(gpu: dict[str, Any], jobs: int) -> None:
    """Compile what will be measured; the worker says what wsched refuses."""
    wanted = []
    for p in PROBLEMS:
        text = definition_text(p.problem)
        with suppress(ScheduleError, UnsupportedError):
            planned = problem_for(text, p.problem.shape, gpu["sms"], gpu["l2_bytes"], gpu["name"])
            wanted += [(text, r.params) for r in schedules_for(text, planned, 0)]
    with progress_bar(len(set(wanted))) as update:
        build(wanted, jobs or None, lambda done, of: update(done, f"compiled {done} of {of}"))


def _measure(
    path: Path, command: dict[str, Any], plan: Plan, processes: int, limits: tuple[float, float]
) -> str:
    """Measure what the file lacks of each process; why it ended early, empty if it did not."""
    seconds, timeout = limits
    begun = time.monotonic()
    for number in range(processes):
        had = read(path).processes.get(number, {})
        left = tuple(p for p in PROBLEMS if str(p) not in had)
        spent = time.monotonic() - begun
        if not left or (seconds and spent >= seconds and number):
            continue
        keep = _Keep(path, command, METHOD.format(processes=processes, **asdict(plan)), number)
        room = max(seconds - spent, 1e-3) if seconds else 0.0
        job = Job(left, "bf16", "tn", {}, asdict(plan), number)
        if stopped := run_shapes(job, COMMAND, len(PROBLEMS), (room, timeout), keep):
            return stopped
    return ""


class _Keep:
    """Writes each result of a process into the file, in front of the first how it was measured.

    Args:
        path: of the file.
        command: the run's options.
        method: how is measured.
        process: its number.
    """

    def __init__(self, path: Path, command: dict[str, Any], method: str, process: int) -> None:
        self._path, self._command, self._method, self._process = path, command, method, process
        self._kept: dict[str, dict[str, Any]] = {}

    def __call__(self, environment: dict[str, Any], shapes: dict[str, dict[str, Any]]) -> None:
        """Keep results that are new; they are told again in the end, with what hung."""
        for problem, result in shapes.items():
            if self._kept.get(problem) == result:
                continue
            if not self._kept:
                write_head(self._path, self._command, self._method, environment)
            self._kept[problem] = result
            write(self._path, self._process, problem, result)


def _end(found: Measured, before: Measured | None, limits: Limits, stopped: str) -> None:
    """Say what came of it, and end with the status that says so."""
    names = _names()
    complete = len(found.complete(names))
    for what, why in {**found.broken(), **found.refused()}.items():
        typer.echo(f"{what}: {why}", err=True)
    if stopped == INTERRUPTED:
        typer.echo(f"interrupted: {complete} processes are complete", err=True)
        raise typer.Exit(STOPPED)
    bad = bool(found.broken()) or (
        before is not None and set(found.refused()) - {*before.refused()}
    )
    if before is None:
        typer.echo(f"recorded: {complete} processes of {len(names)} problems")
        raise typer.Exit(SLOWER if bad else 0)
    if complete < FEWEST and not bad:
        typer.echo(f"unsure: {complete} processes are complete, {FEWEST} are needed")
        raise typer.Exit(UNSURE)
    if bad:
        typer.echo("slower: something failed, is wrong, or is refused now")
        raise typer.Exit(SLOWER)
    verdict = judged(before.ratios(names), found.ratios(names), limits)
    _show(verdict, before, found)
    if verdict.outcome != "as fast":
        raise typer.Exit(SLOWER if verdict.outcome == "slower" else UNSURE)


def _show(verdict: Verdict, before: Measured, found: Measured) -> None:
    """A table, and the verdict as the last line."""
    title = f"{found.gpu['name']}: ratios to cuBLAS over those of the baseline"
    shown = Table("problem", "now / baseline", "", title=title, title_justify="left")
    for problem, change in verdict.each.items():
        outcome = change.outcome(verdict.limits.each)
        shown.add_row(problem, str(change), "" if outcome == "as fast" else outcome)
    Console().print(shown)
    versions = [m.environment.get("versions") for m in (before, found)]
    if versions[0] != versions[1]:
        typer.echo("note: the baseline was measured beside other versions (of cuBLAS, too?)")
    text = f"{verdict.outcome}: {verdict.mean} in geometric mean"
    if verdict.slower:
        text += f"; {', '.join(verdict.slower)}"
    if verdict.outcome == "unsure":
        text += f"; about {verdict.more} more processes might settle it"
    typer.echo(text)
