"""``wsched bench schedules``: how far the heuristic's choice is from the fastest schedule."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from wsched.bench.gemm.results import check_path, save
from wsched.bench.method.measure import METHOD, Plan
from wsched.bench.method.shapes_run import end, run_shapes
from wsched.bench.method.show import show_table
from wsched.bench.method.watch import Job
from wsched.bench.problem import Shape, parse_shapes
from wsched.bench.schedules.layers import drawn_shapes
from wsched.bench.schedules.plot import plot
from wsched.bench.schedules.results import Row, Totals, notes, read, rows_of, table, to_json
from wsched.bench.schedules.worker import FIRST

__all__ = ["COMMAND", "schedules", "shapes_of"]

COMMAND = (sys.executable, "-m", "wsched.bench.schedules.worker")
"""The worker; how many schedules follows."""

LAYERS_WORD = "layers"

_ABOUT = (
    f" A shape is measured twice: all schedules in {FIRST}, then the fastest {FIRST.finalists} and "
    "the heuristic's choice as described."
)


def schedules(
    shapes: str = typer.Option(LAYERS_WORD, help="MxNxK,..., or layers: drawn from models'."),
    count: int = typer.Option(60, min=1, help="How many are drawn."),
    top: int = typer.Option(12, min=0, help="Best-ranked schedules of each shape; 0 for all."),
    rounds: int = typer.Option(8, min=1, help="Counted rounds of the best."),
    replay_ms: float = typer.Option(10.0, min=0.1, help="Time of a schedule in such a round."),
    seconds: float = typer.Option(
        0.0, min=0.0, help="Begin no shape after so many; a later run goes on. 0: no limit."
    ),
    timeout: float = typer.Option(60.0, min=1.0, help="Seconds of silence until a hang is told."),
    seed: int = typer.Option(0, help="Of shapes, operands and order."),
    json_path: Path | None = typer.Option(
        None, "--json", help="Write after each shape; shapes that it has are not measured again."
    ),
    plot_path: Path | None = typer.Option(None, "--plot", help="Write both statistics as a PNG."),
) -> None:
    """Measure the schedules that the heuristic ranks, and how its choice compares with the best.

    Ctrl-C ends with what was measured. The exit status is 1 if a schedule failed or was wrong, 130
    after Ctrl-C.
    """
    wanted = shapes_of(shapes, count, seed)
    plan = Plan(rounds, replay_ms)
    command = {"top": top, "plan": asdict(plan), "seed": seed, "dtype": "bf16", "layout": "tn"}
    state: dict[str, Any] = {"environment": {}, "shapes": {}}
    if json_path is not None:
        check_path(json_path)
        state |= read(json_path, command)
    left = tuple(s for s in wanted if str(s) not in state["shapes"])

    def keep(environment: dict[str, Any], shapes: dict[str, dict[str, Any]]) -> None:
        state["environment"] = state["environment"] or environment
        state["shapes"] |= shapes
        if json_path is not None:
            method = METHOD.format(processes=1, **asdict(plan)) + _ABOUT
            save(json_path, to_json(command, method, state["environment"], state["shapes"]))

    stopped = ""
    if left:
        job = Job(left, "bf16", "tn", {}, asdict(plan), seed)
        command_line = (*COMMAND, str(top))
        stopped = run_shapes(job, command_line, len(wanted), (seconds, timeout), keep)
    rows = rows_of({str(s): state["shapes"][str(s)] for s in wanted if str(s) in state["shapes"]})
    _show(rows, state["environment"], plot_path)
    told = f"{len(rows)} of {len(wanted)} shapes are measured"
    end(stopped, told, any(row.broken for row in rows))


def shapes_of(text: str, count: int, seed: int) -> tuple[Shape, ...]:
    """Parse a list of shapes in which the word ``layers`` stands for drawn ones.

    Raises:
        UnsupportedError: a word that is no shape, or no shape at all; a count above all layers.
    """
    words = [w.strip() for w in text.split(",")]
    if LAYERS_WORD in words:
        drawn = ",".join(map(str, drawn_shapes(count, seed)))
        words = [drawn if w == LAYERS_WORD else w for w in words]
    return parse_shapes(",".join(words))


def _show(rows: list[Row], environment: dict[str, Any], plot_path: Path | None) -> None:
    if not rows:
        return
    title = f"{environment['gpu'].get('name', '?')}, bf16, TN"
    console = Console()
    show_table(table(rows, f"{title}: the heuristic's choice and the best"), console)
    for line in (*notes(rows), str(Totals.of(rows))):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if plot_path is not None:
        plot(rows, title, plot_path)
