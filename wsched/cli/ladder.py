"""``wsched ladder``: ten schedules of one matmul, each a decision away from the one before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from lowering.ground.files import save_file
from lowering.target.targets import DEFAULT
from wsched.cli.check import device
from wsched.cli.ladder_choice import show_way
from wsched.cli.ladder_tables import show_tables
from wsched.cli.options import asked_extents, asked_target, file_of, require_folder
from wsched.cli.prose import prose
from wsched.run.counts import require_extents

if TYPE_CHECKING:
    from wsched.ladder.climb import Step

__all__ = ["ladder"]

Problem = tuple[int, int, int]


Rungs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[v1 | v2 | …]", help="Rungs to look at; a table of all without."),
]
Shape = Annotated[
    str, typer.Option("--shape", metavar="MxNxK", help="What is predicted, or measured.")
]
TargetName = Annotated[str, typer.Option("--target", help="The GPU to make kernels for.")]
Kernel = Annotated[
    bool, typer.Option("--kernel", help="Show what changed in the final kernel, too.")
]
ToChoice = Annotated[
    bool,
    typer.Option(
        "--to-choice",
        help="Show the decisions from the last rung to what is taken for the shape, one by one.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Picture = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the time lines of the rungs as a PNG.")
]
Page = Annotated[
    Path | None,
    typer.Option("--page", help="Make the generated parts of a page anew: design/ladder.md."),
]


def ladder(
    rungs: Rungs = None,
    shape: Shape = "4096x4096x4096",
    target: TargetName = DEFAULT.arch,
    kernel: Kernel = False,
    to_choice: ToChoice = False,
    as_json: Json = False,
    output: Picture = None,
    page: Page = None,
) -> None:
    """Ten schedules of one matmul: what each changes, who waits for what, how fast it is.

    On a GPU all are run, checked and measured in turn; elsewhere the machine with a clock predicts.
    """
    if to_choice:
        if target != DEFAULT.arch:
            why = f"{target}: --to-choice is for {DEFAULT.arch}, whose schedules have a cost model"
            raise typer.BadParameter(why, param_hint="--target")
        show_way(Console(), _problem(shape), as_json)
        return
    require_folder(output, "--output")
    from wsched.ladder.climb import climb

    sizes, steps = _problem(shape), climb(asked_target(target) or DEFAULT)
    asked = _asked(steps, rungs or [])
    if page is not None:
        _write_page(page, steps)
        return
    times = _measured(asked, sizes)
    if output is not None:
        _draw(asked, output)
    if as_json:
        found = [s.to_dict(*sizes, us) for s, us in zip(asked, times, strict=True)]
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    console = Console()
    if rungs:
        for step in asked:
            _show(console, step, kernel)
    show_tables(console, asked, sizes, times)


def _problem(shape: str) -> Problem:
    """M, N and K, of one matrix each."""
    found = asked_extents(shape)
    if found is None or found.batch * found.heads != 1 or not found.m * found.n * found.k:
        raise typer.BadParameter(f"{shape}: M, N and K of one matmul", param_hint="--shape")
    require_extents({"M": found.m, "N": found.n, "K": found.k})
    return found.m, found.n, found.k


def _asked(steps: Sequence[Step], names: Sequence[str]) -> Sequence[Step]:
    """The steps of these names, all without any."""
    known = {s.rung.name: s for s in steps}
    unknown = [n for n in names if n not in known]
    if unknown:
        raise typer.BadParameter(f"no rung {unknown[0]}: there are {', '.join(known)}")
    return [known[n] for n in names] or steps


def _here(steps: Sequence[Step]) -> bool:
    """Whether there is a GPU that runs these."""
    return device(steps[0].target) == "cuda"


def _measured(steps: Sequence[Step], sizes: Problem) -> Sequence[float | None]:
    """Microseconds of each step, None where none was measured."""
    if not _here(steps):
        return [None] * len(steps)
    from wsched.ladder.measure import measure

    return measure({s.rung.name: s.kernel for s in steps}, *sizes)


def _write_page(path: Path, steps: Sequence[Step]) -> None:
    from wsched.ladder.page import with_generated

    with file_of(path, "--page"):
        text = with_generated(path.read_text(encoding="utf-8"), steps)
        save_file(path, text.encode())


def _draw(steps: Sequence[Step], path: Path) -> None:
    """What warps do when: recorded on a GPU, else by the machine's clock."""
    from wsched.ladder.measure import timeline
    from wsched.ladder.picture import draw, lanes_of_trace

    unit, lanes = "cycles of an SM, by the machine's clock", [s.shown.lanes for s in steps]
    if _here(steps):
        traces = [timeline(s.kernel) for s in steps]
        unit, lanes = traces[0].unit, list(map(lanes_of_trace, traces))
    with file_of(path, "--output"):
        draw(list(zip(steps, lanes, strict=True)), unit, path)


def _show(console: Console, step: Step, kernel: bool) -> None:
    """One rung at length."""
    rung = step.rung
    texts = [prose(f"{rung.name}: {rung.title}"), prose(step.decision), prose(step.why), step.nests]
    texts += ["schedule", step.diff("calls"), "kernel before passes", step.diff("lower")]
    if kernel:
        texts += ["final kernel", step.diff("kernel")]
    for text in texts:
        if text:
            console.print(text, markup=False, highlight=False, soft_wrap=True)
