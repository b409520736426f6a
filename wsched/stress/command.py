"""``wsched stress``: random fusions, schedules and sizes, launch after launch."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from lowering.ground.errors import UnsupportedError
from lowering.ground.natural import natural
from lowering.target.targets import target_of_device
from wsched.bench.method.appended import append
from wsched.bench.method.bar import progress_bar
from wsched.stress.launches import Where, drawn_kernel
from wsched.stress.results import SCHEMA, Failure, Row, read_rows, summary
from wsched.stress.run import Plan, judged, lives, rows

__all__ = ["HUNG", "stress"]

HUNG = 3
"""Exit status where a launch did not end: the process is ended, which is all that can be done."""

_THREADS = 8
"""That make cubins, at most: a kernel's takes a second, its launches a quarter of one."""

_LARGEST = {"cuda": 2048, "cpu": 160}
_EACH = {"cuda": 256, "cpu": 3}


def stress(
    seed: Annotated[int, typer.Option("--seed", help="Of all that is drawn.")] = 0,
    count: Annotated[int, typer.Option("--count", min=1, help="Launches.")] = 100_000,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Stop after this time.")] = 600,
    json: Annotated[
        Path | None, typer.Option("--json", help="File to append what comes of each kernel to.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on behind the kernels that --json has.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="KERNEL[.LAUNCH]", help="One of a line of WRONG."),
    ] = None,
    largest: Annotated[
        int | None,
        typer.Option(
            "--largest", min=8, help="Most elements of a dimension: 2048, on the CPU 160."
        ),
    ] = None,
    each: Annotated[
        int | None,
        typer.Option("--each", min=1, help="Launches of a kernel; 256, on the CPU 3."),
    ] = None,
    hang: Annotated[
        float, typer.Option("--hang", min=1, help="Seconds that a kernel's launches may take.")
    ] = 60,
) -> None:
    """Launch random fusions with random schedules on random sizes, and judge every result.

    A kernel is used for many sizes. Results, and what lies around all tensors, are poisoned before.
    What is wrong, or refused, is drawn again by its numbers. Without a GPU the machine runs them,
    slowly. With WSCHED_WATCHDOG=1 a kernel that hangs says where.
    """
    device = _device()
    where = Where(device, largest or _LARGEST[device], seed)
    if only is not None:
        raise typer.Exit(_again(where, only, each or _EACH[device]))
    told: dict[str, Any] = {"seed": seed, "device": device, "largest": where.largest}
    before = _begun(json, resume, told)
    plan = Plan(where, count, seconds, each or _EACH[device], min(_THREADS, os.cpu_count() or 1))
    found = _run(plan, json, before, hang)
    if before:
        typer.echo(f"before: {summary(before, sum(r.seconds for r in before))}")
    raise typer.Exit(any(r.failures for r in (*before, *found)) or not found)


def _run(plan: Plan, json: Path | None, before: Sequence[Row], hang: float) -> list[Row]:
    """All kernels but those that were run before, under a bar; what is wrong is told at once."""

    def keep(row: Row) -> None:
        if json is not None:
            append(json, row.to_dict())
        for failure in row.failures:
            typer.echo(_told(plan.where, row, failure))
        if row.untaken is not None:
            launch, why = row.untaken
            typer.echo(
                f"{row.refused} refused by {row.name}: {why} ({_at(plan.where, row, launch)})"
            )
        if row.unmade:
            typer.echo(f"unmade: {row.unmade} ({_at(plan.where, row)})")

    begin, found = perf_counter(), list[Row]()
    with progress_bar(plan.count) as update, _watchdog(hang, keep) as watch:
        for row in rows(plan, {r.kernel for r in before}, watch):
            watch(None)
            keep(row)
            found.append(row)
            update(sum(r.launches for r in found), summary(found, perf_counter() - begin))
    typer.echo(summary(found, perf_counter() - begin))
    if not lives(plan.where):
        typer.echo("The device is lost: another process goes on with --json FILE --resume.")
    return found


def _device() -> str:
    import torch

    return "cpu" if target_of_device(torch) is None else "cuda"


def _begun(json: Path | None, resume: bool, told: dict[str, Any]) -> list[Row]:
    """What a file has; it is begun where there is none.

    Raises:
        UnsupportedError: it is another run's, or there is one that nobody wants to go on with.
    """
    if json is None:
        if resume:
            raise UnsupportedError("--resume without --json", "the file of the run that goes on")
        return []
    if json.exists() and not resume:
        raise UnsupportedError(f"--json {json}, which is there,", "a new file, or --resume")
    if not json.exists():
        append(json, {"schema": SCHEMA, "command": told})
    return read_rows(json, told)


def _told(where: Where, row: Row, failure: Failure) -> str:
    """A failure, and how to draw it again."""
    sizes = f" on {failure.sizes}" if failure.sizes else ""
    again = _at(where, row, failure.launch)
    return f"WRONG {row.name or 'no kernel'}{sizes}: {failure.wrong} ({again})"


def _at(where: Where, row: Row, launch: int = -1) -> str:
    """How to draw a kernel again, or a launch of it."""
    number = row.kernel if launch < 0 else f"{row.kernel}.{launch}"
    return f"--seed {where.seed} --largest {where.largest} --only {number}"


def _again(where: Where, only: str, each: int) -> int:
    """One kernel, or one launch of it, with its definition and schedule; the exit status."""
    kernel, dot, one = only.partition(".")
    number, launch = natural(kernel), natural(one)
    if number is None or (dot and launch is None):
        raise typer.BadParameter(f"--only {only}: numbers of a kernel and a launch, 12.3 or 12")
    worked = drawn_kernel(where, number)
    typer.echo(worked.form.text)
    typer.echo(f"{worked.told}\n")
    numbers = range(each) if launch is None else range(launch, launch + 1)
    row = judged(where, worked, numbers)
    for failure in row.failures:
        typer.echo(_told(where, row, failure))
    typer.echo(summary([row], row.seconds))
    return 1 if row.failures else 0


@contextmanager
def _watchdog(
    seconds: float, keep: Callable[[Row], None]
) -> Iterator[Callable[[int | None], None]]:
    """Ends the process if the launches of a kernel take longer; yields what is told which begins,
    None behind it.

    A thread does it, while the main thread waits for the GPU, which leaves Python's lock free.
    """
    timers: list[threading.Timer] = []

    def end(number: int) -> None:
        wrong = f"no end after {seconds:g} s"
        keep(Row(number, "", 0, 0, seconds, (Failure(-1, "", wrong),)))
        os._exit(HUNG)

    def watch(number: int | None) -> None:
        while timers:
            timers.pop().cancel()
        if number is not None:
            timers.append(threading.Timer(seconds, end, (number,)))
            timers[-1].daemon = True
            timers[-1].start()

    try:
        yield watch
    finally:
        watch(None)
