"""``wsched bench gate``: kernels built, then processes beside cuBLAS, then a verdict."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from lowering.ground.errors import UnsupportedError
from wsched.bench.drawn.build import build_for
from wsched.bench.drawn.command import device
from wsched.bench.drawn.schedules import schedules_for
from wsched.bench.gate.problems import PROBLEMS
from wsched.bench.gate.results import SCHEMA, Measured, baseline_of, read
from wsched.bench.gate.verdict import EACH, FEWEST, MEAN, Limits, Verdict, judged
from wsched.bench.gemm.results import check_path
from wsched.bench.method.appended import Keep, other_options
from wsched.bench.method.measure import METHOD, Plan
from wsched.bench.method.shapes_run import INTERRUPTED, run_shapes
from wsched.bench.method.show import show_table
from wsched.bench.method.watch import Job
from wsched.bench.problem import definition_text
from wsched.choose.gpus import GPUS

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
    slower, wrong or refused, 2 if there is nothing to measure with, or to compare with, 3 if the
    noise does not allow to say, 130 after Ctrl-C.
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
        raise other_options(json_path, found.command, command)
    stopped = ""
    if len(found.complete(_names())) < processes:
        problems = [(definition_text(p.problem), p.problem.shape) for p in PROBLEMS]
        build_for(problems, asdict(known), partial(schedules_for, first=0), jobs)
        if (there := device()["name"]) != known.name:
            raise UnsupportedError(f"--gpu {gpu} where there is {there}", f"a {known.name}")
        stopped = _measure(json_path, found, command, plan, processes, (seconds, timeout))
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


def _measure(
    path: Path,
    found: Measured,
    command: dict[str, Any],
    plan: Plan,
    processes: int,
    limits: tuple[float, float],
) -> str:
    """Measure what was not found of each process; why it ended early, empty if it did not."""
    method = METHOD.format(processes=processes, **asdict(plan))
    head = {"schema": SCHEMA, "command": command, "method": method}
    seconds, timeout = limits
    begun = time.monotonic()
    for number in range(processes):
        had = found.processes.get(number, {})
        left = tuple(p for p in PROBLEMS if str(p) not in had)
        spent = time.monotonic() - begun
        if not left or (seconds and spent >= seconds and number):
            continue
        keep = Keep(path, head, {}, process=number)
        room = max(seconds - spent, 1e-3) if seconds else 0.0
        job = Job(left, "bf16", "tn", {}, asdict(plan), number)
        if stopped := run_shapes(job, COMMAND, len(PROBLEMS), (room, timeout), keep):
            return stopped
    return ""


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
    show_table(shown)
    versions = [m.environment.get("versions") for m in (before, found)]
    if versions[0] != versions[1]:
        typer.echo("note: the baseline was measured beside other versions (of cuBLAS, too?)")
    text = f"{verdict.outcome}: {verdict.mean} in geometric mean"
    if verdict.slower:
        text += f"; {', '.join(verdict.slower)}"
    if verdict.outcome == "unsure":
        text += f"; about {verdict.more} more processes might settle it"
    typer.echo(text)
