"""``wsched bench random``: problems that nobody chose, beside cuBLAS."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from wsched.bench.drawn.build import build_for
from wsched.bench.drawn.problems import Drawn, draw, read_problems
from wsched.bench.drawn.results import SCHEMA, Line, again, line_of, table, totals
from wsched.bench.drawn.schedules import FIRST, schedules_for
from wsched.bench.drawn.worker import FIRST as STAGE
from wsched.bench.gemm.results import check_path
from wsched.bench.method.appended import Keep, read
from wsched.bench.method.gpu import CudaGpu, require_gpu
from wsched.bench.method.measure import METHOD, Plan
from wsched.bench.method.shapes_run import TIME_IS_UP, end, run_shapes
from wsched.bench.method.show import show_table
from wsched.bench.method.watch import Job
from wsched.bench.problem import definition_text

__all__ = ["COMMAND", "Asked", "device", "measure", "random", "show_lines"]

COMMAND = (sys.executable, "-m", "wsched.bench.drawn.worker")
"""The worker; how many schedules follows."""

_ABOUT = (
    f" A problem is measured twice: all schedules and cuBLAS in {STAGE}, then cuBLAS, what is "
    f"taken and the fastest {STAGE.finalists} as described, these in every process."
)


def random(
    problems: Path = typer.Argument(help="A CSV file with the columns M, N, K and layout."),
    count: int = typer.Option(24, min=1, help="How many are drawn."),
    seed: int = typer.Option(1, help="Of the draw, the operands and the order."),
    odd: bool = typer.Option(False, "--odd", help="Make M, N and K smaller by 0 to 7 each."),
    first: int = typer.Option(
        FIRST, min=0, help="Schedules of the cost model, beside variants; 0: only what is taken."
    ),
    rounds: int = typer.Option(8, min=1, help="Counted rounds of the fastest."),
    replay_ms: float = typer.Option(10.0, min=0.1, help="Time of a system in such a round."),
    processes: int = typer.Option(
        1, min=1, help="Fresh processes that measure the fastest, beside cuBLAS and what is taken."
    ),
    seconds: float = typer.Option(
        0.0, min=0.0, help="Begin no problem after so many; a later run goes on. 0: no limit."
    ),
    timeout: float = typer.Option(60.0, min=1.0, help="Seconds of silence until a hang is told."),
    jobs: int = typer.Option(0, min=0, help="Processes that compile; 0: one for each processor."),
    json_path: Path | None = typer.Option(
        None, "--json", help="Append a line for each problem; what it has is not measured again."
    ),
) -> None:
    """Measure problems drawn from a list beside cuBLAS: what is taken, and the best of many.

    The problems are random.Random(seed).sample of those between 2 GFLOP and 3 TFLOP; none is left
    out, what wsched refuses is a row that says why. All kernels are compiled first. Ctrl-C ends
    with what was measured. The exit status is 1 if a system failed or was wrong, 130 after Ctrl-C.
    """
    wanted = draw(read_problems(problems), count, seed, odd)
    plan = Plan(rounds, replay_ms)
    asked = Asked(wanted, plan, first, seed, seconds, timeout, jobs, json_path, processes)
    measure(asked, _show)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command line asks for.

    Args:
        problems: to measure, in order.
        plan: of the second stage.
        first: schedules of the cost model; 0 for what is taken alone.
        seed: of the operands and the order.
        seconds: begin no problem after so many; 0 for no limit.
        timeout: seconds of silence until a hang is told.
        jobs: processes that compile; 0 for one for each processor.
        path: of the file; None for none.
        processes: that measure the second stage, each with an order and operands of its own.
    """

    problems: tuple[Drawn, ...]
    plan: Plan
    first: int
    seed: int
    seconds: float
    timeout: float
    jobs: int
    path: Path | None
    processes: int = 1


def measure(asked: Asked, show: Callable[[list[Line], dict[str, Any]], None]) -> None:
    """Measure what a file does not have yet, and show all: lines and the GPU, if one was asked for.

    Raises:
        UnsupportedError: there is no GPU, or the file is one of something else.
        typer.Exit: with 130 after Ctrl-C, with 1 where a system failed or was wrong.
    """
    found = [dict[str, dict[str, Any]]() for _ in range(asked.processes)]
    if asked.path is not None:
        check_path(asked.path)
        found = [read(asked.path, SCHEMA, _command(asked), i) for i in range(asked.processes)]
    gpu: dict[str, Any] = {}
    stopped, begun = "", monotonic()
    for number, known in enumerate(found):
        there = asked.problems if not number else [p for p in asked.problems if str(p) in found[0]]
        left = tuple(p for p in there if str(p) not in known)
        if left and not stopped:
            gpu, gone = gpu or device(), monotonic() - begun
            if asked.seconds and gone >= asked.seconds:
                stopped = TIME_IS_UP
                continue
            some = replace(asked, seconds=asked.seconds and asked.seconds - gone)
            stopped = _measured(some, left, gpu, number, found)
    lines = [
        line_of(p, [known[str(p)] for known in found if str(p) in known])
        for p in asked.problems if str(p) in found[0]
    ]  # fmt: skip
    show(lines, gpu)
    whole = sum(str(p) in found[-1] for p in asked.problems)
    told = f"{whole} of {len(asked.problems)} problems are measured"
    end(stopped, told, any(line.broken for line in lines))


def _command(asked: Asked) -> dict[str, Any]:
    """What a file that a run goes on with was asked for as well."""
    several = {} if asked.processes == 1 else {"processes": asked.processes}
    return {"plan": asdict(asked.plan), "first": asked.first, "seed": asked.seed} | several


def _measured(
    asked: Asked, left: tuple[Drawn, ...], gpu: dict[str, Any], number: int,
    found: list[dict[str, dict[str, Any]]],
) -> str:  # fmt: skip
    """What one process measures of the problems that it has not; why it ended early, if it did.

    The first one finds the fastest, of which kernels are compiled ahead; others measure these.
    """
    systems: dict[str, Any] = {}
    if number:
        systems = {str(p): again(found[0][str(p)]) for p in left}
    else:
        problems = [(definition_text(p.problem), p.problem.shape) for p in left]
        build_for(problems, gpu, partial(schedules_for, first=asked.first), asked.jobs)
    method = METHOD.format(processes=asked.processes, **asdict(asked.plan)) + _ABOUT
    head = {"schema": SCHEMA, "command": _command(asked), "method": method}
    beside = {"process": number} if number else {}
    keep = Keep(asked.path, head, found[number], **beside)
    job = Job(left, "bf16", "tn", systems, asdict(asked.plan), asked.seed + number)
    worker = (*COMMAND, str(asked.first))
    return run_shapes(job, worker, len(asked.problems), (asked.seconds, asked.timeout), keep)


def device() -> dict[str, Any]:
    """The GPU, as the worker describes it.

    Raises:
        UnsupportedError: there is none.
    """
    require_gpu("wsched bench")
    return CudaGpu(0).describe()


def _show(lines: list[Line], gpu: dict[str, Any]) -> None:
    title = f"{gpu.get('name', 'GPU')}, bf16: ratios to cuBLAS"
    show_lines(lines, table(lines, title), totals(lines))


def show_lines(lines: list[Line], shown: Table, told: list[str]) -> None:
    """Print a table of lines, what is broken in them, and texts about all."""
    console = Console()
    if lines:
        show_table(shown, console)
    for line in lines:
        refused = {"wsched": line.refused} if line.refused else {}
        for name, reason in (refused | line.broken).items():
            console.print(f"{name} at {line.problem}: {reason}", markup=False, soft_wrap=True)
    for text in told:
        console.print(text, markup=False, highlight=False, soft_wrap=True)
