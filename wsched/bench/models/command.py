"""``wsched bench models``: modules of published models and definitions, with wsched and without."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from lowering.ground.errors import UnsupportedError
from lowering.ground.files import save_file
from wsched.bench.gemm.results import check_path
from wsched.bench.method.appended import Keep, read
from wsched.bench.method.measure import Plan
from wsched.bench.method.shapes_run import Keep as ShapesKept
from wsched.bench.method.shapes_run import end, run_beside, run_shapes
from wsched.bench.method.show import show_table
from wsched.bench.method.watch import Job
from wsched.bench.models.asked import Asked, asked
from wsched.bench.models.measure import METHOD, OWN, WAYS
from wsched.bench.models.modules import MODULES
from wsched.bench.models.results import SCHEMA, Line, brief, line_of, reasons, table, totals

__all__ = ["COMMAND", "models"]

COMMAND = (sys.executable, "-m", "wsched.bench.models.worker")
"""The worker; how many processes torch.compile may have follows."""


def models(
    module: str = typer.Option("all", help="Of " + ", ".join((*MODULES, "all", "none"))),
    tokens: str = typer.Option("512,8192", help="Rows of a module's input, with commas between."),
    definitions: list[Path] = typer.Option(
        [], help="A file with a definition, or a folder of them; may be given several times."
    ),
    ways: str = typer.Option(",".join(WAYS), help="What takes part, with commas between."),
    rounds: int = typer.Option(7, min=1, help="Counted rounds."),
    burst_ms: float = typer.Option(20.0, min=0.1, help="Time of a way in a round."),
    jobs: int = typer.Option(
        1, min=1, help="Prepare so many at a time, in this order, and all before one is measured."
    ),
    seconds: float = typer.Option(
        0.0, min=0.0, help="Leave what is not begun (--jobs: prepared) by then. 0: no limit."
    ),
    timeout: float = typer.Option(180.0, min=1.0, help="Seconds of silence until a hang is told."),
    seed: int = typer.Option(0, help="Of weights, inputs and the order."),
    json_path: Path | None = typer.Option(
        None, "--json", help="Append a line for each; what it has is not measured again."
    ),
    summary_path: Path | None = typer.Option(
        None, "--summary", help="Write what all of it comes to as JSON."
    ),
    plot_path: Path | None = typer.Option(
        None, "--plot", help="A folder for pictures of the cut definitions (Graphviz)."
    ),
) -> None:
    """Run modules of published models, and definitions, with wsched installed and without.

    Modules run in torch's eager mode, by torch.compile and by lightning-thunder; definitions in
    torch's eager mode and by nvFuser. The exit status is 1 if wsched failed or was wrong, 130 after
    Ctrl-C.
    """
    wanted, named = asked(module, tokens, definitions), _ways(ways)
    plan = Plan(rounds, burst_ms)
    command = {"plan": asdict(plan), "ways": named, "seed": seed}
    found: dict[str, dict[str, Any]] = {}
    for path in (json_path, summary_path):
        if path is not None:
            check_path(path)
    if json_path is not None:
        found = read(json_path, SCHEMA, command)
    for name in (str(a) for a in wanted if str(a) in found):
        _tell(name, found[name])
    stopped = ""
    if left := tuple(a for a in wanted if str(a) not in found):
        head = {"schema": SCHEMA, "command": command, "method": METHOD.format(**asdict(plan))}
        job = Job(left, "bf16", "tn", dict.fromkeys(named), asdict(plan), seed)
        kept = _told(Keep(json_path, head, found), found)
        stopped = _run(job, len(wanted), jobs, (seconds, timeout), kept)
    lines = [line_of(str(a), found[str(a)]) for a in wanted if str(a) in found]
    _show(lines)
    if summary_path is not None:
        save_file(summary_path, _summary(lines).encode())
    if plot_path is not None:
        _draw(plot_path, wanted, found)
    told = f"{len(lines)} of {len(wanted)} are measured"
    end(stopped, told, any(OWN in line.broken for line in lines))


def _ways(text: str) -> list[str]:
    names = [w.strip() for w in text.split(",") if w.strip()]
    if unknown := [n for n in names if n not in WAYS]:
        raise UnsupportedError(f"--ways {unknown[0]}", ", ".join(WAYS))
    if not names:
        raise UnsupportedError("--ways without a name", ", ".join(WAYS))
    return [w for w in WAYS if w in names]


def _run(job: Job, every: int, jobs: int, limits: tuple[float, float], keep: ShapesKept) -> str:
    """Measure what is left; why that ended early, empty if it did not.

    Of several workers each lets torch.compile have twice its share of the processors, as it
    compiles for about half of the time.
    """
    if jobs == 1:
        return run_shapes(job, (*COMMAND, "0"), every, limits, keep)
    compiling = max(2, 2 * (os.cpu_count() or 1) // jobs)
    return run_beside(job, (*COMMAND, str(compiling)), every, limits, jobs, keep)


def _told(keep: ShapesKept, found: Mapping[str, Any]) -> ShapesKept:
    """The same, and a line of each as soon as it is there."""

    def kept(environment: dict[str, Any], results: dict[str, dict[str, Any]]) -> None:
        for name in results.keys() - found.keys():
            _tell(name, results[name])
        keep(environment, results)

    return kept


def _tell(name: str, result: Mapping[str, Any]) -> None:
    typer.echo(brief(line_of(name, result)))


def _summary(lines: Sequence[Line]) -> str:
    data = {"lines": [line.to_dict() for line in lines], "totals": totals(lines)}
    return json.dumps(data | {"reasons": reasons(lines)}, indent=1) + "\n"


def _show(lines: Sequence[Line]) -> None:
    console = Console()
    if lines:
        title = "us from call to call (of a replayed graph)"
        show_table(table(lines, title), console)
    for line in lines:
        for name, reason in line.broken.items():
            console.print(f"{name} at {line.name}: {reason}", markup=False, soft_wrap=True)
    for text in (*totals(lines), *reasons(lines)):
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _draw(folder: Path, wanted: Sequence[Asked], found: Mapping[str, Mapping[str, Any]]) -> None:
    """A file for each cut definition, named after what it is of."""
    folder.mkdir(parents=True, exist_ok=True)
    for a in wanted:
        told = found.get(str(a), {}).get("told") or {}
        for number, cut in enumerate(told.get("cuts", ())):
            name = re.sub(r"[^\w.-]+", "_", f"{a} {number}")
            (folder / f"{name}.dot").write_text(cut["dot"])
