"""``wsched dump``: the stages of a definition's kernels, as texts or as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from passes.dump import dump_folder
from wsched.cli.options import File, Params, Shape, Sms, TargetName, file_of, named
from wsched.cli.parts import Looked, PartNumber, looked_at
from wsched.front.sizes import schedule_for
from wsched.run.grid import CODE

__all__ = ["dump"]


def dump(
    file: File,
    stage: Annotated[
        str,
        typer.Option(
            "--stage",
            help="schedule (a text to change and give in FILE's place), fusion, subdags, dot "
            "(Graphviz), loops, lower, the name of a pass, kernel, cuda, ptx, sass, mlir, "
            "mlir-nvgpu; 'all' writes a file for each but schedule and mlir-nvgpu.",
        ),
    ] = "loops",
    shape: Shape = None,
    sms: Sms = None,
    params: Params = None,
    target: TargetName = None,
    part: PartNumber = None,
    folder: Annotated[Path, typer.Option("--dir", help="Where 'all' goes.")] = Path("wsched-dump"),
) -> None:
    """Print one stage of a definition's kernel, of each part where it is cut; or write all."""
    found = looked_at(file, shape, sms, params, target, part)
    if stage == "schedule":
        _print_schedule(file, found)
    elif stage == "all":
        _write_all(file, found, folder)
    else:
        for one in found:
            with named(file):
                # Code is that of what is launched.
                made = one.kernel.grids if stage in CODE else one.kernel.launched
            texts = [each.dump(stage) for each in made]
            if one.title:  # beside the text, which programs read
                typer.echo(f"part {one.part}, {one.title}", err=True)
            for text in texts:
                typer.echo(text, nl=False)
        typer.echo(found[0].planned_for, err=True, nl=False)


def _print_schedule(file: Path, found: tuple[Looked, ...]) -> None:
    """One schedule: a file has no more."""
    if len(found) > 1:
        numbers = " or ".join(str(one.part) for one in found)
        why = f"schedule is of one kernel, this definition has several parts: --part {numbers}"
        raise typer.BadParameter(why, param_hint="--stage")
    one, asked = found[0], found[0].asked
    with named(file):
        made = schedule_for(one.definition, one.extents, asked.sms, asked.params, asked.target)
    typer.echo(str(made), nl=False)


def _write_all(file: Path, found: tuple[Looked, ...], folder: Path) -> None:
    """Every stage of every kernel, and the code of those that are launched as one; parts whose
    kernels have one name are one folder.
    """
    with named(file):
        kernels = [k for one in found for k in (*one.kernel.launched, *one.kernel.grids)]
        made = {k.name: k for k in kernels}
    with file_of(folder, "--dir"):
        dumps = [k.dump_all(dump_folder(folder, name)) for name, k in made.items()]
    for path in (path for each in dumps for path in each.files):
        typer.echo(path)
    for reason in (reason for each in dumps for reason in each.missing):
        typer.echo(f"without {reason}", err=True)
