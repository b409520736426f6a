"""Kernels compiled by all processors at once, before a GPU is asked for anything."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from itertools import starmap
from typing import Any

from lowering.ground.errors import ScheduleError, UnsupportedError, WschedError
from wsched.bench.method.bar import progress_bar
from wsched.bench.problem import Shape
from wsched.bench.schedules.ranking import Ranked, problem_for
from wsched.choose.problem import Problem
from wsched.front.known import import_fusion
from wsched.run.registers import compile_clean
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["build", "build_for"]

MANY, CHUNK = 32, 4
"""So many problems are ranked by several processes, so many of them at a time: a process takes a
second or two to start, a ranking half a second."""


def build_for(
    wanted: Iterable[tuple[str, Shape]],
    gpu: dict[str, Any],
    listed: Callable[[str, Problem], Iterable[Ranked]],
    jobs: int,
) -> None:
    """Choose and compile what will be measured, under bars; the worker says what wsched refuses.

    Args:
        wanted: definitions and their sizes.
        gpu: ``name``, ``sms`` and ``l2_bytes``.
        listed: the schedules of a definition for the problem that is planned for.
        jobs: processes; 0 for as many as there are processors.
    """
    asked = [(listed, text, shape, gpu) for text, shape in wanted]
    found = list[tuple[str, MatmulParams]]()
    with ExitStack() as ends:
        update = ends.enter_context(progress_bar(len(asked)))
        every: Iterable[list[tuple[str, MatmulParams]]] = starmap(_listed, asked)
        if len(asked) >= MANY:
            pool = ends.enter_context(_pool(jobs or None, len(asked)))
            every = pool.map(_listed, *zip(*asked, strict=True), chunksize=CHUNK)
        for number, some in enumerate(every, 1):
            found += some
            update(number, f"chose for {number} of {len(asked)}")
    with progress_bar(len(set(found))) as update:
        build(found, jobs or None, lambda done, of: update(done, f"compiled {done} of {of}"))


def _listed(
    listed: Callable[[str, Problem], Iterable[Ranked]], text: str, shape: Shape, gpu: dict[str, Any]
) -> list[tuple[str, MatmulParams]]:
    """The schedules of a problem; none of what is refused."""
    with suppress(ScheduleError, UnsupportedError):
        planned = problem_for(text, shape, gpu["sms"], gpu["l2_bytes"], gpu["name"])
        return [(text, r.params) for r in listed(text, planned)]
    return []


def build(
    wanted: Iterable[tuple[str, MatmulParams]],
    jobs: int | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, int]:
    """Compile kernels into the cache on disk, where the process that measures finds them.

    A kernel that does not compile is left to that process, which says why.

    Args:
        wanted: definition and schedule of each; what comes twice is compiled once.
        jobs: processes; as many as there are processors if it is not given.
        told: takes how many are done, and of how many.

    Returns:
        Kernels by outcome: ``ok``, or the type of the error.
    """
    unique = dict.fromkeys(wanted)
    found: dict[str, int] = {}
    with _pool(jobs, len(unique)) as pool:
        left = [pool.submit(_compiled, *one) for one in unique]
        for number, future in enumerate(as_completed(left), 1):
            outcome = future.result()
            found[outcome] = found.get(outcome, 0) + 1
            told(number, len(left))
    return found


def _pool(jobs: int | None, most: int) -> ProcessPoolExecutor:
    """Fresh processes: a forked CUDA context does not work."""
    workers = min(jobs or os.cpu_count() or 1, max(most, 1))
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def _compiled(definition: str, params: MatmulParams) -> str:
    """Compile one kernel in this process; what came of it."""
    try:
        _ = compile_clean(import_fusion(definition), params).compiled
    except WschedError as error:
        return type(error).__name__
    return "ok"
