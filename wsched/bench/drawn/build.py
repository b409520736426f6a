"""Kernels compiled by all processors at once, before a GPU is asked for anything."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import suppress
from time import monotonic
from typing import Any

from lowering.ground.errors import ScheduleError, UnsupportedError, WschedError
from wsched.bench.method.bar import progress_bar
from wsched.bench.problem import Shape
from wsched.bench.schedules.ranking import Ranked, problem_for
from wsched.choose.problem import Problem
from wsched.front.known import import_fusion
from wsched.run.registers import compile_clean
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["build", "build_for", "processes"]

START_S, CHUNK = 2.0, 4
"""What a process takes to start, and how many problems it ranks at a time."""

_Asked = tuple[Callable[[str, Problem], Iterable[Ranked]], str, Shape, dict[str, Any]]
_Kernel = tuple[str, MatmulParams]


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
    found = list[_Kernel]()
    with processes(jobs) as pool:
        with progress_bar(len(asked)) as update:
            for number, some in enumerate(_ranked(asked, pool), 1):
                found += some
                update(number, f"chose for {number} of {len(asked)}")
        with progress_bar(len(set(found))) as update:
            build(found, pool, lambda done, of: update(done, f"compiled {done} of {of}"))


def _ranked(asked: Iterable[_Asked], pool: Executor) -> Iterator[list[_Kernel]]:
    """The schedules of each problem, in order: ranked in this process for as long as others would
    take to start, then by those. A ranking takes 20 ms, or half a second with its variants.
    """
    begin, left = monotonic(), iter(asked)
    for one in left:
        yield _listed(one)
        if monotonic() - begin > START_S:
            break
    yield from pool.map(_listed, left, chunksize=CHUNK)


def _listed(asked: _Asked) -> list[_Kernel]:
    """The schedules of a problem; none of what is refused."""
    listed, text, shape, gpu = asked
    with suppress(ScheduleError, UnsupportedError):
        planned = problem_for(text, shape, gpu["sms"], gpu["l2_bytes"], gpu["name"])
        return [(text, r.params) for r in listed(text, planned)]
    return []


def build(
    wanted: Iterable[_Kernel],
    pool: Executor,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, int]:
    """Compile kernels into the cache on disk, where the process that measures finds them.

    A kernel that does not compile is left to that process, which says why.

    Args:
        wanted: definition and schedule of each; what comes twice is compiled once.
        pool: the processes, as :func:`processes` makes them.
        told: takes how many are done, and of how many.

    Returns:
        Kernels by outcome: ``ok``, or the type of the error.
    """
    found: dict[str, int] = {}
    left = [pool.submit(_compiled, *one) for one in dict.fromkeys(wanted)]
    for number, future in enumerate(as_completed(left), 1):
        outcome = future.result()
        found[outcome] = found.get(outcome, 0) + 1
        told(number, len(left))
    return found


def processes(jobs: int) -> ProcessPoolExecutor:
    """So many fresh processes, 0 for one for each processor, each started when there is work for
    it; forked ones would have a CUDA context that does not work.
    """
    spawned = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs or os.cpu_count() or 1, mp_context=spawned)


def _compiled(definition: str, params: MatmulParams) -> str:
    """Compile one kernel in this process; what came of it."""
    try:
        for grid in compile_clean(import_fusion(definition), params).grids:
            _ = grid.compiled
    except WschedError as error:
        return type(error).__name__
    return "ok"
