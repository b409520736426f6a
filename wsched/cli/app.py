"""The command line: ``wsched demo | run | dump | explain | tune | bench | plugin | …``."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.bench.cli import app as bench_app
from wsched.bench.tune.command import tune
from wsched.cli.asked import asked_kernel
from wsched.cli.bundle import bundle
from wsched.cli.check import device
from wsched.cli.dump import dump
from wsched.cli.explore import explore
from wsched.cli.group import Group
from wsched.cli.ladder import ladder
from wsched.cli.matmul import matmul
from wsched.cli.options import (
    File,
    Params,
    Shape,
    Sms,
    TargetName,
    asked_extents,
    asked_params,
    asked_target,
    extents_of,
    found_file,
    has_several,
    named,
    planned_for,
    read_definition_file,
    text_of,
)
from wsched.cli.parts import PartNumber, looked_at
from wsched.cli.proof import print_proofs
from wsched.cli.prose import prose
from wsched.cli.trace import trace
from wsched.cli.why import why
from wsched.front.explain import explain_definition
from wsched.front.explanation import Explanation
from wsched.front.known import import_fusion
from wsched.front.route import WSCHED
from wsched.front.schedule import Schedule
from wsched.front.sizes import Extents, extents_for
from wsched.nvfuser.cli import app as plugin_app
from wsched.schedule.loops import side_by_side
from wsched.stress.command import stress
from wsched.version import __version__

__all__ = ["app"]


app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Schedule nvFuser fusions with matmuls, look at every stage, run them.",
)
app.add_typer(bench_app, name="bench", help="Measure wsched beside its peers (needs a GPU).")
app.command()(dump)
app.command()(tune)
app.command()(trace)
app.command()(why)
app.command()(explore)
app.command()(bundle)
app.command()(matmul)
app.command()(ladder)
app.command()(stress)
app.add_typer(plugin_app, name="plugin", help="nvFuser's heuristic plugin with wsched's choices.")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """What stands in front of a command."""


@app.command()
def demo() -> None:
    """Define a fusion with nvFuser, schedule it, run it, check the result."""
    from wsched.cli.demo import run_demo

    raise typer.Exit(run_demo())


@app.command()
def run(
    file: File,
    shape: Shape = None,
    sms: Sms = None,
    params: Params = None,
    target: TargetName = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random inputs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a definition on random inputs and check the result; exit status 1 if it is wrong.

    One that is no single kernel runs as a whole, by its own sizes: with torch, and without options
    that speak of a kernel.
    """
    from wsched.cli.check import check, sized_inputs

    planned, definition = "", read_definition_file(file)
    of_kernel = any(x is not None for x in (shape, sms, params, target))
    with named(file):
        whole = not of_kernel and has_several(definition)
        if whole and find_spec("torch") is None:
            what = "running a definition of several parts without torch"
            hint = "Install torch; `wsched explain` says what the parts are"
            raise UnsupportedError(what, "definitions of one kernel", hint)
    if whole:
        from wsched.cli.whole import check_whole

        where = device()
        facts: dict[str, object] = {"device": where}
        with named(file):
            outcome = check_whole(str(definition), seed, where)
    else:
        extents = extents_of(file, definition, asked_extents(shape))
        asked = asked_kernel(definition, params, target, sms)
        where = device(asked.planned)
        with named(file):
            kernel = asked.kernel(definition, extents)
            outcome = check(kernel, sized_inputs(kernel, extents, seed, where))
        facts = {"kernel": kernel.kernel.name, "device": where, "sms": asked.sms}
        planned = planned_for(definition, asked.sms)
    if as_json:
        typer.echo(json.dumps(facts | outcome.to_dict(), indent=2))
    else:
        typer.echo(f"{outcome.text}{planned}", nl=False)
    raise typer.Exit(0 if outcome.passed else 1)


@app.command(name="explain")
def explain_command(
    file: File,
    shape: Shape = None,
    sms: Sms = None,
    params: Params = None,
    target: TargetName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which way a definition goes on a GPU, every choice and every refusal."""
    size, definition = asked_extents(shape), read_definition_file(file)
    asked = asked_kernel(definition, params, target, sms)
    with named(file):
        found = explain_definition(
            definition,
            asked.device,
            lambda fusion: extents_for(fusion, size).problem(fusion, asked.sms, asked.planned),
            asked.params,
            asked.sms,
            asked.planned,
        )
    if size is not None and found.kernel is None:
        why = _why_no_kernel(definition, found)
        if why or found.parts:
            why = why or "a definition of several parts has the sizes that it says"
            raise typer.BadParameter(why, param_hint="--shape")
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return
    typer.echo(prose(str(found)))
    if found.kernel is not None:
        extents = Extents.parse(found.kernel.problem)
        typer.echo(side_by_side(asked.kernel(definition, extents).fusion), nl=False)


@app.command(name="check")
def check_command(
    file: File,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    proof: Annotated[
        bool,
        typer.Option(
            "--proof",
            help="Print what is proved of a definition's kernel instead; of each where it is cut.",
        ),
    ] = False,
    shape: Shape = None,
    sms: Sms = None,
    params: Params = None,
    target: TargetName = None,
    part: PartNumber = None,
) -> None:
    """Print a schedule's loops and say whether it is legal, or why not; exit status 1 if not."""
    if proof:
        looked = looked_at(file, shape, sms, params, target, part)
        with named(file):
            proved = print_proofs(looked, as_json)
        raise typer.Exit(0 if proved else 1)
    options = {
        "--shape": shape, "--sms": sms, "--params": params, "--target": target, "--part": part,
    }  # fmt: skip
    for option, given in options.items():
        if given is not None:  # a schedule has made all of its choices
            raise typer.BadParameter("is for --proof", param_hint=option)
    text = text_of(file)
    with named(file, ScheduleError):
        schedule = Schedule.parse(text)
    found = schedule.check()
    if as_json:
        typer.echo(json.dumps(found.to_dict() | {"loops": schedule.show()}, indent=2))
    else:
        typer.echo(f"{schedule.show()}\n{found}", nl=False)
    raise typer.Exit(0 if found.error is None else 1)


@app.command()
def tiles(
    file: Annotated[
        Path | None,
        typer.Argument(help="A definition, - for stdin; by default a linear.", callback=found_file),
    ] = None,
    params: Params = None,
    target: TargetName = None,
    legal: Annotated[bool, typer.Option("--legal", help="Leave out what is refused.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a tile each.")] = False,
) -> None:
    """Say which tiles a definition's kernel can have, and why not the others."""
    from wsched.front.legal_tiles import legal_tiles, tiles_table, to_dict

    given, made_for = asked_params(params), asked_target(target)
    if file is None:
        choices = legal_tiles(params=given, target=made_for)
    else:
        text = text_of(file)
        with named(file):
            choices = legal_tiles(text, params=given, target=made_for)
    if as_json:
        plain = [to_dict(c) for c in choices if c.legal or not legal]
        typer.echo(json.dumps(plain, indent=2))
    else:
        typer.echo(tiles_table(choices, legal), nl=False)


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what of this machine wsched can use and what to do; exit status 1 if something fails."""
    from wsched.cli.doctor import State, findings, verdict

    found = []
    for f in findings():
        found.append(f)
        if not as_json:
            typer.echo(prose(f"{f.state.value:>8}  {f.name}: {f.found}"))
            if f.advice:
                typer.echo(prose(f"{'':>10}{f.advice}"))
    if as_json:
        plain = {"findings": [f.to_dict() for f in found], "verdict": verdict(found)}
        typer.echo(json.dumps(plain, indent=2))
    else:
        typer.echo(prose(f"\n{verdict(found)}"))
    raise typer.Exit(1 if any(f.state is State.FAILS for f in found) else 0)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def _why_no_kernel(definition: str | Schedule, found: Explanation) -> str:
    """Why a definition that has a kernel has none of the sizes asked for; empty where it has none
    of any.
    """
    try:
        import_fusion(definition)
    except UnsupportedError:
        return ""
    return next((r.reason for r in found.refusals if r.what == WSCHED), "")
