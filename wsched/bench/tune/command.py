"""``wsched tune``: measure the shortlist of the cost model, and keep the fastest schedule."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from lowering.ground.errors import UnsupportedError
from wsched.bench.drawn.build import build_for
from wsched.bench.fused.definition import problem_of
from wsched.bench.fused.epilogue import BARE, EPILOGUES
from wsched.bench.method.gpu import CudaGpu, require_gpu
from wsched.bench.method.measure import METHOD, Plan
from wsched.bench.method.shapes_run import end, run_shapes
from wsched.bench.method.show import show_table
from wsched.bench.method.watch import Job
from wsched.bench.problem import DTYPES, LAYOUTS, Problem, Shape
from wsched.bench.schedules.command import shapes_of
from wsched.bench.schedules.ranking import problem_for, shortlist
from wsched.bench.tune.results import Outcome, notes, outcome_of, shown, to_json
from wsched.bench.tune.worker import FIRST, definition_of
from wsched.choose.tuned.entry import Entry, EntryError
from wsched.choose.tuned.lookup import forget, untrusted, user_table
from wsched.choose.tuned.table import TableError, add_entries, read_table
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents, extents_for
from wsched.importer.input_error import InputError
from wsched.version import __version__

__all__ = ["COMMAND", "device", "tune"]

COMMAND = (sys.executable, "-m", "wsched.bench.tune.worker")
"""The worker; how many schedules and what to measure follow."""

_ABOUT = (
    f" A shape is measured twice: its shortlist in {FIRST}, then the fastest {FIRST.finalists} and "
    "the cost model's choice as described. The choice stays unless the lower quartile of the "
    "ratios says that another schedule is faster."
)


def tune(
    sizes: list[int] = typer.Argument(None, metavar="[M N K]", min=1, help="A shape."),
    shapes: str | None = typer.Option(
        None, "--shapes", help="MxNxK,..., anchors, layers, or a file with such words in its lines."
    ),
    count: int = typer.Option(60, min=1, help="How many of layers are drawn."),
    layout: str = typer.Option("tn", help="A and B in BLAS letters: " + ", ".join(LAYOUTS)),
    dtype: str = typer.Option("bf16", help=" or ".join(DTYPES)),
    epilogue: str = typer.Option(BARE, help="One of " + ", ".join(EPILOGUES)),
    definition: Path | None = typer.Option(
        None, exists=True, dir_okay=False, help="A definition in place of these three."
    ),
    top: int = typer.Option(12, min=0, help="Best-ranked schedules of each shape; 0 for all."),
    budget: float = typer.Option(
        0.0, min=0.0, help="Begin no shape after so many seconds; a later run goes on. 0: no limit."
    ),
    output: Path | None = typer.Option(None, help="The table, in place of the user's."),
    again: bool = typer.Option(False, "--again", help="Measure what this version measured, too."),
    rounds: int = typer.Option(12, min=1, help="Counted rounds of the best."),
    replay_ms: float = typer.Option(10.0, min=0.1, help="Time of a schedule in such a round."),
    timeout: float = typer.Option(60.0, min=1.0, help="Seconds of silence until a hang is told."),
    seed: int = typer.Option(0, help="Of shapes, operands and order."),
    jobs: int = typer.Option(0, min=0, help="Processes that compile; 0: one for each processor."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure the schedules that the cost model ranks first, and keep the fastest in a table.

    The heuristic takes what the table has for a problem. Each shape is kept as soon as it is
    measured; a later run leaves out what the same version of wsched measured. Ctrl-C ends with what
    was measured. The exit status is 1 if a schedule failed or was wrong, 130 after Ctrl-C.
    """
    wanted = _shapes(sizes or [], shapes, count, seed)
    what, problems = _asked(wanted, layout.lower(), dtype, epilogue, definition)
    dtype, layout = problems[0].dtype, problems[0].layout
    gpu, table = device(), _table(output)
    outcomes = {} if again else _known(table, problems, what, gpu)
    left = tuple(s for s in wanted if str(s) not in outcomes)
    plan = Plan(rounds, replay_ms)
    stopped = ""
    if left:
        texts = [(definition_of(what, p), p.shape) for p in problems if p.shape in left]
        build_for(texts, gpu, partial(shortlist, top=top), jobs)
        job = Job(left, dtype, layout, {}, asdict(plan), seed)
        worker = (*COMMAND, str(top), what)
        keep = _keep(table, outcomes)
        stopped = run_shapes(job, worker, len(wanted), (budget, timeout), keep)
    found = [outcomes[str(s)] for s in wanted if str(s) in outcomes]
    if as_json:
        method = METHOD.format(processes=1, **asdict(plan)) + _ABOUT
        command = {"dtype": dtype, "layout": layout, "what": what, "top": top, "seed": seed}
        typer.echo(json.dumps(to_json(found, table, method, command, stopped), indent=2))
    else:
        _show(found, f"{gpu['name']}, {dtype}, {layout.upper()}, {what}: kept in {table}")
    told = f"{len(found)} of {len(wanted)} shapes are measured"
    end(stopped, told, any(o.broken for o in found), "--budget is spent")


def device() -> dict[str, Any]:
    """The GPU, as the worker describes it.

    Raises:
        UnsupportedError: there is none.
    """
    require_gpu("wsched tune")
    return CudaGpu(0).describe()


def _shapes(sizes: list[int], text: str | None, count: int, seed: int) -> tuple[Shape, ...]:
    """The shapes that were asked for in either way."""
    if (text is None) == (not sizes) or len(sizes) not in (0, 3):
        raise typer.BadParameter("write either M N K or --shapes", param_hint="M N K")
    if text is None:
        return (Shape(*sizes),)
    path = Path(text)
    if path.is_file():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as e:
            raise typer.BadParameter(f"{path}: {e}", param_hint="--shapes") from None
        text = ",".join(line.partition("#")[0] for line in lines)
    return shapes_of(text, count, seed)


def _asked(
    shapes: tuple[Shape, ...], layout: str, dtype: str, epilogue: str, definition: Path | None
) -> tuple[str, list[Problem]]:
    """What the worker is told to measure, and the problems."""
    if definition is not None:
        if (layout, dtype, epilogue) != ("tn", "bf16", BARE):
            why = "a definition says type, layout and epilogue itself"
            raise typer.BadParameter(why, param_hint="--definition")
        what = str(definition.resolve())
        try:
            text = definition_of(what, Problem(shapes[0]))
        except (OSError, UnicodeDecodeError) as e:
            raise typer.BadParameter(f"{what}: {e}", param_hint="--definition") from None
        try:
            problems = [problem_of(text, s) for s in shapes]
            for s in shapes:
                extents_for(import_fusion(text), Extents(s.m, s.n, s.k))
        except (UnsupportedError, InputError) as e:
            typer.echo(f"{definition}: {e}", err=True)
            raise typer.Exit(2) from None
        return what, problems
    for name, word, known in (
        ("layout", layout, LAYOUTS), ("dtype", dtype, tuple(DTYPES)),
        ("epilogue", epilogue, tuple(EPILOGUES)),
    ):  # fmt: skip
        if word not in known:
            raise UnsupportedError(f"--{name} {word}", ", ".join(known))
    return epilogue, [Problem(s, dtype, layout) for s in shapes]


def _table(output: Path | None) -> Path:
    """The table that is written, checked to be one that can be."""
    path = user_table() if output is None else output
    if output is None and (why := untrusted(path)):
        raise UnsupportedError(f"a table of which {why}", "one that is the user's alone")
    _add(path, ())
    return path


def _add(path: Path, entries: tuple[Entry, ...]) -> None:
    try:
        add_entries(path, entries)
    except OSError as e:
        why = e.strerror or str(e) or type(e).__name__
        raise TableError(f"{path} cannot be written ({why}); it is as it was") from None


def _known(
    table: Path, problems: list[Problem], what: str, gpu: dict[str, Any]
) -> dict[str, Outcome]:
    """What this version of wsched measured on this GPU already."""
    entries, found = read_table(table).entries, {}
    for p in problems:
        text = definition_of(what, p)
        planned = problem_for(text, p.shape, gpu["sms"], gpu["l2_bytes"], gpu["name"])
        data = entries.get(planned)
        if data is None or data.get("wsched") != __version__:
            continue
        try:
            found[str(p.shape)] = Outcome(str(p.shape), Entry.of(planned, data), known=True)
        except EntryError:
            continue  # it is measured again
    return found


def _keep(
    table: Path, outcomes: dict[str, Outcome]
) -> Callable[[dict[str, Any], dict[str, dict[str, Any]]], None]:
    """What writes each result into the table and into ``outcomes``."""

    def keep(environment: dict[str, Any], shapes: dict[str, dict[str, Any]]) -> None:
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        for shape, result in shapes.items():
            made = outcome_of(shape, result, __version__, date)
            if shape in outcomes:  # told again, now with what hung
                made = replace(made, entry=outcomes[shape].entry)
            elif made.entry is not None:
                _add(table, (made.entry,))
                forget()
            outcomes[shape] = made

    return keep


def _show(outcomes: list[Outcome], title: str) -> None:
    if outcomes:
        console = Console()
        show_table(shown(outcomes), console)
        for line in (title, *notes(outcomes)):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
