"""The command line: ``wsched demo | run | dump | explain | bench``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lowering.errors import WschedError
from wsched import __version__
from wsched.bench.cli import app as bench_app
from wsched.inspect import Extents, explain, kernel_for, write_dumps

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Schedule nvFuser fusions with matmuls, look at every stage, run them.",
)
app.add_typer(bench_app, name="bench", help="Measure wsched beside its peers (needs a GPU).")

File = Annotated[
    Path,
    typer.Argument(
        help="A definition as nvFuser prints it (repr(fd)).", exists=True, dir_okay=False
    ),
]
Shape = Annotated[str, typer.Option("--shape", help="Problem size MxNxK.")]
Sms = Annotated[int, typer.Option("--sms", help="Multiprocessors of the device to plan for.")]


@app.command()
def demo() -> None:
    """Define a fusion with nvFuser, schedule it, run it, check the result."""
    from wsched.demo import run_demo

    raise typer.Exit(run_demo())


@app.command()
def dump(
    file: File,
    stage: Annotated[str, typer.Option("--stage", help="One stage; 'all' writes files.")] = "loops",
    shape: Shape = "256x256x512",
    sms: Sms = 4,
    folder: Annotated[Path, typer.Option("--dir", help="Where 'all' goes.")] = Path("wsched-dump"),
) -> None:
    """Print one stage of a definition's kernel, or write all of them."""
    kernel = kernel_for(file.read_text(), _extents(shape), sms)
    if stage == "all":
        for path in write_dumps(kernel, folder / kernel.kernel.name):
            typer.echo(path)
    else:
        typer.echo(kernel.dump(stage), nl=False)


@app.command()
def run(
    file: File,
    shape: Shape = "256x256x512",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random inputs.")] = 0,
) -> None:
    """Run a definition on random inputs and check the result against torch."""
    from wsched.demo import check_definition

    outcome = check_definition(file.read_text(), _extents(shape), seed)
    typer.echo(outcome.text)
    raise typer.Exit(0 if outcome.passed else 1)


@app.command(name="explain")
def explain_command(
    file: File,
    shape: Shape = "256x256x512",
    sms: Sms = 132,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which kernel a problem gets, with which parameters and why it is legal."""
    found = explain(file.read_text(), _extents(shape), sms)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
        return
    typer.echo(
        f"{found.kernel}: {found.threads} threads, {found.shared_bytes} bytes of shared memory"
    )
    typer.echo(f"predicted: {found.predicted_cycles:.0f} cycles on the busiest SM")
    typer.echo("legal because the load index follows the compute loops:")
    for line in found.relation:
        typer.echo(f"  {line}")
    typer.echo("parameters:")
    for key, value in found.params.items():
        typer.echo(f"  {key} = {value}")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def _extents(shape: str) -> Extents:
    try:
        return Extents.parse(shape)
    except ValueError as e:
        raise typer.BadParameter(str(e), param_hint="--shape") from None


def main() -> None:
    """Run the command line; an error of wsched is its text and exit status 2, no traceback."""
    try:
        app()
    except WschedError as e:
        typer.echo(str(e), err=True)
        sys.exit(2)
