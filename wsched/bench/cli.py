"""``wsched bench``: measure, and show what was measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from lowering.ground.errors import UnsupportedError, WschedError
from lowering.ground.files import save_file
from wsched.bench.drawn.command import random
from wsched.bench.drawn.rows import rows
from wsched.bench.gate.command import gate
from wsched.bench.gemm.plot import plot
from wsched.bench.gemm.report import markdown, notes, table
from wsched.bench.gemm.results import Summary, check_path, from_json, save, summarize, to_json
from wsched.bench.groups import groups
from wsched.bench.method.bar import progress_bar
from wsched.bench.method.measure import METHOD, Plan
from wsched.bench.method.show import show_table
from wsched.bench.method.watch import Job, run_process
from wsched.bench.mlp import mlp
from wsched.bench.models.command import models
from wsched.bench.moe import moe
from wsched.bench.peers.systems import PEERS, parse_peers
from wsched.bench.pingpong.command import pingpong
from wsched.bench.problem import DTYPES, LAYOUTS, parse_shapes
from wsched.bench.schedules.command import schedules
from wsched.bench.tma.command import tma

__all__ = ["app", "job_of", "read_params"]

app = typer.Typer(
    help="Measure kernels beside other libraries'.", no_args_is_help=True, add_completion=False
)

_PARAMS = typer.Option([], "--params", help="MatmulParams as JSON; may be given several times.")
_JSON = typer.Option(None, "--json", help="Write what was measured, after each process.")
_PLOT = typer.Option(None, "--plot", help="Write the ratios as a PNG.")
_MARKDOWN = typer.Option(None, "--markdown", help="Write the table for a document.")


@app.command()
def gemm(
    shapes: str = typer.Option("anchors", help="MxNxK,... or anchors, the eight of the figures."),
    dtype: str = typer.Option("bf16", help=" or ".join(DTYPES)),
    layout: str = typer.Option("tn", help="A and B in BLAS letters: " + ", ".join(LAYOUTS)),
    peers: str = typer.Option(
        "cublas,nvfuser,nvfuser-pingpong,nvfuser-wsched,nvfuser-plugin,triton,cutlass",
        help="Of " + ", ".join(PEERS),
    ),
    params: list[Path] = _PARAMS,
    rounds: int = typer.Option(10, min=1, help="Counted rounds."),
    processes: int = typer.Option(3, min=1, help="Fresh processes."),
    replay_ms: float = typer.Option(25.0, min=0.1, help="Time of a system in a round."),
    energy: float = typer.Option(0.0, min=0.0, help="Seconds that each runs alone for its energy."),
    timeout: float = typer.Option(60.0, min=1.0, help="Seconds of silence until a hang is told."),
    seed: int = typer.Option(0, help="Of operands and order; process i has this plus i."),
    json_path: Path | None = _JSON,
    plot_path: Path | None = _PLOT,
    markdown_path: Path | None = _MARKDOWN,
) -> None:
    """Compare D = A · Bᵀ with cuBLAS, nvFuser, Triton and CUTLASS in interleaved rounds.

    Ctrl-C ends with what was measured, and status 130.

    Status 1 means that wsched or cuBLAS failed or was wrong.
    """
    with _told():
        plan = Plan(rounds, replay_ms, energy)
        job = job_of(shapes, dtype, layout, peers, params, plan, seed)
        if json_path is not None:
            check_path(json_path)
        runs: list[dict[str, Any]] = []
        with suppress(KeyboardInterrupt):
            for run in _run(job, processes, timeout):
                runs.append(run)
                if json_path is not None:
                    save(json_path, _data(job, processes, plan, runs)[1])
        done = sum(run["complete"] for run in runs)
        if runs:
            summary, data = _data(job, processes, plan, runs)
            _show(data, summary, runs, plot_path, markdown_path)
        if done < processes:
            _say(f"interrupted: {done} of {processes} processes were measured to the end")
            raise typer.Exit(130)
        if summary.broken:
            raise typer.Exit(1)


@app.command()
def show(
    path: Path = typer.Argument(help="A file that `wsched bench gemm --json` wrote."),
    plot_path: Path | None = _PLOT,
    markdown_path: Path | None = _MARKDOWN,
) -> None:
    """Show the table of an earlier run again."""
    with _told():
        try:
            data = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise UnsupportedError(
                f"{path} ({error})", "a file of `wsched bench gemm --json`"
            ) from error
        summary, runs = from_json(data)
        _show(data, summary, runs, plot_path, markdown_path)


def job_of(
    shapes: str, dtype: str, layout: str, peers: str, params: list[Path], plan: Plan, seed: int
) -> Job:
    """Return what the command line asks for.

    wsched takes part with its heuristics and once more for each file of parameters; cuBLAS is
    always a peer.

    Raises:
        UnsupportedError: a word of it that is not known.
    """
    if dtype not in DTYPES:
        raise UnsupportedError(f"--dtype {dtype}", ", ".join(DTYPES))
    if layout not in LAYOUTS:
        raise UnsupportedError(f"--layout {layout}", ", ".join(LAYOUTS))
    systems: dict[str, dict[str, Any] | None] = {}
    systems.update(dict.fromkeys([*parse_peers(peers), "wsched"]))
    for path in params:
        name = f"wsched:{path.stem}"
        if name in systems:
            raise UnsupportedError(f"a second --params file named {path.stem}", "different names")
        systems[name] = read_params(path)
    return Job(parse_shapes(shapes), dtype, layout, systems, asdict(plan), seed)


def read_params(path: Path) -> dict[str, Any]:
    """Return a file's ``MatmulParams`` as a dict, checked to be one.

    Raises:
        UnsupportedError: the file cannot be read or holds no JSON object.
        ScheduleError: a field or a name that does not exist.
    """
    from wsched.schedule.matmul.params import MatmulParams

    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UnsupportedError(
            f"--params {path} ({error})", "a JSON file of MatmulParams"
        ) from error
    if not isinstance(data, dict):
        raise UnsupportedError(
            f"--params {path}", "one JSON object, as MatmulParams.to_dict() makes"
        )
    checked: dict[str, Any] = MatmulParams.from_dict(data).to_dict()
    return checked


class _Shown:
    """What the bar says: which process, shape, system and step.

    Args:
        update: sets the bar's number of finished shapes and its text.
        shapes: shapes of a process.
        processes: of the run.
    """

    def __init__(
        self, update: Callable[[int, str], None], shapes: Sequence[str], processes: int
    ) -> None:
        self._update, self._shapes, self._processes = update, list(shapes), processes
        self._number = -1

    def next_process(self) -> None:
        """Say that another process begins."""
        self._number += 1

    def __call__(self, shape: str, system: str, step: str) -> None:
        finished = self._number * len(self._shapes) + self._shapes.index(shape)
        where = f"process {self._number + 1}/{self._processes}, {shape}"
        self._update(finished, f"{where}: {system} {step}")


def _run(job: Job, processes: int, timeout_s: float) -> Iterator[dict[str, Any]]:
    """Run the processes, one after another, under a bar; the last one is the interrupted one."""
    seed = job.seed
    with progress_bar(processes * len(job.shapes)) as update:
        shown = _Shown(update, [str(s) for s in job.shapes], processes)
        for number in range(processes):
            shown.next_process()
            run, job = run_process(replace(job, seed=seed + number), timeout_s, shown)
            if run["shapes"]:
                yield run
            if not run["complete"]:
                return


def _data(
    job: Job, processes: int, plan: Plan, runs: list[dict[str, Any]]
) -> tuple[Summary, dict[str, Any]]:
    """Summary and JSON of the processes so far; ``processes`` were asked for."""
    summary = summarize(job.shapes, list(job.systems), runs)
    method = METHOD.format(processes=len(runs), **asdict(plan))
    return summary, to_json(job.to_dict() | {"processes": processes}, method, runs, summary)


def _show(
    data: dict[str, Any],
    summary: Summary,
    runs: list[dict[str, Any]],
    plot_path: Path | None,
    markdown_path: Path | None,
) -> None:
    console = Console()
    command = data["command"]
    gpu = data["environment"]["gpu"].get("name", "?")
    title = f"{gpu}, {command['dtype']}, {command['layout'].upper()}"
    show_table(table(summary, f"{title}: TFLOP/s (ratio to cuBLAS)"), console)
    for line in notes(summary, runs):
        console.print(line, markup=False, highlight=False)
    if markdown_path is not None:
        save_file(markdown_path, markdown(summary).encode())
    if plot_path is not None:
        plot(summary, title, plot_path)


@contextmanager
def _told() -> Iterator[None]:
    """Print an error of wsched as its text and end with status 2: nothing was found out."""
    try:
        yield
    except WschedError as error:
        _say(str(error))
        raise typer.Exit(2) from error


def _say(text: str) -> None:
    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


app.command()(_told()(gate))
app.command()(_told()(groups))
app.command()(_told()(mlp))
app.command()(_told()(models))
app.command()(_told()(moe))
app.command()(_told()(pingpong))
app.command()(_told()(random))
app.command()(_told()(rows))
app.command()(_told()(schedules))
app.command()(_told()(tma))
