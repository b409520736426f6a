"""Shapes one after another, or prepared beside each other, under a bar, each result kept at once,
within a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from typing import Any

import typer

from wsched.bench.method.bar import progress_bar
from wsched.bench.method.turns import Enough, Turns
from wsched.bench.method.watch import Job, run_process

__all__ = ["INTERRUPTED", "TIME_IS_UP", "Keep", "end", "run_beside", "run_shapes"]

INTERRUPTED, TIME_IS_UP = "interrupted", "the time is up"
"""Why :func:`run_shapes` ends early."""

Keep = Callable[[dict[str, Any], dict[str, dict[str, Any]]], None]
"""Takes the environment and each result by its shape, and all in the end, with what hung."""


def run_shapes(
    job: Job, command: Sequence[str], every: int, limits: tuple[float, float], keep: Keep
) -> str:
    """Measure; why it ended early, empty if it did not.

    Args:
        job: the shapes that are left.
        command: the worker.
        every: number of all shapes, those that need not be measured in front.
        limits: seconds after which no shape is begun, 0 for none; seconds of silence of a worker.
        keep: what becomes of results.
    """
    seconds, timeout_s = limits
    places = {str(shape): every - len(job.shapes) + i for i, shape in enumerate(job.shapes)}
    begun = time.monotonic()
    stopped = ""

    def finished(environment: dict[str, Any], shape: str, result: dict[str, Any]) -> None:
        nonlocal stopped
        keep(environment, {shape: result})
        if seconds and time.monotonic() - begun > seconds and shape != str(job.shapes[-1]):
            stopped = TIME_IS_UP
            raise Enough

    run: dict[str, Any] = {"complete": False, "environment": {}, "shapes": {}}
    with suppress(KeyboardInterrupt), progress_bar(every) as update:
        run, _ = run_process(
            job,
            timeout_s,
            lambda shape, system, step: update(places[shape], f"{shape}: {system} {step}"),
            command,
            finished=finished,
        )
    if run["shapes"]:
        keep(run["environment"], run["shapes"])
    return stopped or ("" if run["complete"] else INTERRUPTED)


def run_beside(
    job: Job,
    command: Sequence[str],
    every: int,
    limits: tuple[float, float],
    at_once: int,
    keep: Keep,
) -> str:
    """The same with a process for each shape: so many prepare at a time, and when all are prepared
    they measure one after the other.

    Args:
        job: the shapes that are left.
        command: the worker.
        every: number of all shapes.
        limits: seconds after which shapes that are not prepared are left to a later run, 0 for
            none; seconds of silence of a worker.
        at_once: processes that prepare at a time.
        keep: what becomes of results; it is called by one thread at a time.

    Raises:
        BenchError, UnsupportedError: what the first that failed so says, behind all others.
    """
    seconds, timeout_s = limits
    turns, before = Turns(len(job.shapes), at_once), every - len(job.shapes)
    with progress_bar(every) as update, ThreadPoolExecutor(len(job.shapes)) as pool:

        def progress(shape: str, system: str, step: str) -> None:
            done = sum(f.done() for f in futures)
            update(before + done, f"{shape}: {system} {step}")

        def finished(environment: dict[str, Any], shape: str, result: dict[str, Any]) -> None:
            keep(environment, {shape: result})

        def run(place: int) -> None:
            alone = replace(job, shapes=job.shapes[place : place + 1])
            with suppress(Enough), turns.of(place) as turn:
                found, _ = run_process(
                    alone, timeout_s, progress, command, finished=finished, turn=turn
                )
                if found["shapes"]:
                    keep(found["environment"], found["shapes"])

        futures = list[Any]()
        futures += [pool.submit(run, place) for place in range(len(job.shapes))]
        try:
            wait(futures, timeout=seconds or None)
            stopped = TIME_IS_UP if turns.leave_unprepared() else ""
            wait(futures)
        except KeyboardInterrupt:
            turns.leave_all()
            stopped = INTERRUPTED
    for error in filter(None, (f.exception() for f in futures)):
        raise error
    return stopped


def end(stopped: str, told: str, broken: bool, limit: str = "--seconds have passed") -> None:
    """Say why a command ended early, if it did, and end it with the status that it has.

    Args:
        stopped: what :func:`run_shapes` or :func:`run_beside` returned.
        told: how much is measured.
        broken: whether something failed or was wrong.
        limit: what is said where the time is up.

    Raises:
        typer.Exit: with 130 after Ctrl-C, with 1 if something was broken.
    """
    if stopped:
        typer.echo(f"{limit if stopped == TIME_IS_UP else stopped}: {told}", err=True)
    if stopped == INTERRUPTED:
        raise typer.Exit(130)
    if broken:
        raise typer.Exit(1)
