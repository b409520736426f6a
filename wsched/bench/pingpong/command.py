"""``wsched bench pingpong``: cooperative or ping-pong, by K and by epilogue."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from wsched.bench.fused.epilogue import EPILOGUES, parse_epilogues
from wsched.bench.fused.systems import OWN, PEERS
from wsched.bench.gemm.results import check_path, save
from wsched.bench.method.bar import progress_bar
from wsched.bench.method.measure import METHOD, Plan
from wsched.bench.method.show import show_table
from wsched.bench.method.watch import Job, run_process
from wsched.bench.peers.systems import parse_peers
from wsched.bench.pingpong.plot import plot
from wsched.bench.pingpong.results import Row, notes, rows_of, table, to_json
from wsched.bench.problem import Shape, parse_shapes

__all__ = ["COMMAND", "SWEEP", "pingpong", "sweep_shapes"]

COMMAND = (sys.executable, "-m", "wsched.bench.pingpong.worker")
"""The worker; the epilogue follows."""

SWEEP = tuple(Shape(4096, 4096, k) for k in (128, 256, 512, 1024, 2048, 4096, 8192))
"""Shapes that differ in the length of the main loop only: with a short one the epilogue counts."""

_ABOUT = (
    " The product has deviation 1, and so have bias and residual. A ratio is one of times: the "
    "first system's over the second one's."
)


def pingpong(
    epilogues: str = typer.Option(",".join(EPILOGUES), help="Of " + ", ".join(EPILOGUES)),
    shapes: str = typer.Option(
        "sweep,anchors", help="MxNxK,...; sweep: 4096x4096 by K; anchors: those of `bench gemm`."
    ),
    peers: str = typer.Option(",".join(PEERS), help="Of " + ", ".join(PEERS)),
    rounds: int = typer.Option(10, min=1, help="Counted rounds."),
    processes: int = typer.Option(1, min=1, help="Fresh processes of each epilogue."),
    replay_ms: float = typer.Option(15.0, min=0.1, help="Time of a system in a round."),
    timeout: float = typer.Option(
        240.0, min=1.0, help="Seconds of silence until a hang is told; torch.compile is silent."
    ),
    seed: int = typer.Option(0, help="Of operands and order; process i has this plus i."),
    json_path: Path | None = typer.Option(
        None, "--json", help="Write what was measured, after each process."
    ),
    plot_path: Path | None = typer.Option(
        None, "--plot", help="Write the ratio of ping-pong and cooperative over K as a PNG."
    ),
) -> None:
    """Compare the best cooperative and the best ping-pong schedule, with epilogues.

    Beside them run the heuristic's choice, cuBLAS (eager mode for an epilogue), torch.compile and
    nvFuser, in rounds of random order. Ctrl-C ends with what was measured. The exit status is 1 if
    wsched or cuBLAS failed or was wrong, 130 after Ctrl-C.
    """
    names = parse_epilogues(epilogues)
    systems = (*OWN, *parse_peers(peers, PEERS))
    plan = Plan(rounds, replay_ms)
    wanted = sweep_shapes(shapes)
    job = Job(wanted, "bf16", "tn", dict.fromkeys(systems), asdict(plan), seed)
    if json_path is not None:
        check_path(json_path)
    command = {"epilogues": list(names), "processes": processes} | job.to_dict()
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    done = 0
    with suppress(KeyboardInterrupt):
        for epilogue, run in _run(job, names, processes, timeout):
            runs[epilogue].append(run)
            done += run["complete"]
            if json_path is not None:
                method = _method(plan, processes)
                save(json_path, to_json(command, method, runs, rows_of(wanted, runs)))
    rows = rows_of(wanted, runs)
    if rows:
        _show(rows, systems, runs, plot_path)
    if done < processes * len(names):
        typer.echo(f"interrupted: {done} of {processes * len(names)} processes ended", err=True)
        raise typer.Exit(130)
    if any(row.broken for row in rows):
        raise typer.Exit(1)


def sweep_shapes(text: str) -> tuple[Shape, ...]:
    """Parse a list of shapes in which the word ``sweep`` stands for :data:`SWEEP`.

    Raises:
        UnsupportedError: a word that is no shape, or no shape at all.
    """
    swept = ",".join(map(str, SWEEP))
    return parse_shapes(",".join(swept if w.strip() == "sweep" else w for w in text.split(",")))


def _method(plan: Plan, processes: int) -> str:
    return METHOD.format(processes=processes, **asdict(plan)) + _ABOUT


def _run(
    job: Job, epilogues: tuple[str, ...], processes: int, timeout_s: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run the processes of every epilogue under a bar; the last one may be the interrupted one."""
    jobs = dict.fromkeys(epilogues, job)
    before = 0
    with progress_bar(processes * len(epilogues) * len(job.shapes)) as update:
        for number in range(processes):
            for epilogue in epilogues:
                run, after = run_process(
                    replace(jobs[epilogue], seed=job.seed + number),
                    timeout_s,
                    _shown(update, job, epilogue, before),
                    (*COMMAND, epilogue),
                )
                jobs[epilogue] = after
                before += len(job.shapes)
                if run["shapes"]:
                    yield epilogue, run
                if not run["complete"]:
                    return


def _shown(
    update: Callable[[int, str], None], job: Job, epilogue: str, before: int
) -> Callable[[str, str, str], None]:
    places = {str(shape): i for i, shape in enumerate(job.shapes)}

    def show(shape: str, system: str, step: str) -> None:
        update(before + places[shape], f"{epilogue} {shape}: {system} {step}")

    return show


def _show(
    rows: list[Row],
    systems: tuple[str, ...],
    runs: dict[str, list[dict[str, Any]]],
    plot_path: Path | None,
) -> None:
    first = next(p for processes in runs.values() for p in processes)
    title = f"{first['environment']['gpu'].get('name', '?')}, bf16, TN"
    console = Console()
    show_table(table(rows, systems, f"{title}: microseconds, and ratios of times"), console)
    for line in notes(rows):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if plot_path is not None:
        plot(rows, title, plot_path)
