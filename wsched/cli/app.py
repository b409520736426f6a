"""The command line: ``wsched demo | run | dump | explain | tune | bench | plugin | …``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from lowering.ground.errors import ScheduleError, UnsupportedError, WschedError
from lowering.target.targets import DEFAULT
from wsched.bench.cli import app as bench_app
from wsched.bench.tune.command import tune
from wsched.choose.presets import PRESETS, ParamsError, read_params
from wsched.choose.problem import H200_SMS
from wsched.cli.check import multiprocessors
from wsched.cli.group import Group
from wsched.front.explain import explain_definition
from wsched.front.explanation import Explanation
from wsched.front.known import import_fusion
from wsched.front.route import WSCHED
from wsched.front.schedule import Schedule
from wsched.front.sizes import Extents, extents_for, kernel_for, read_definition, schedule_for
from wsched.nvfuser.cli import app as plugin_app
from wsched.schedule.loops import side_by_side
from wsched.schedule.matmul.params import MatmulParams
from wsched.version import __version__

__all__ = ["app", "main"]

STDIN = Path("-")


app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Schedule nvFuser fusions with matmuls, look at every stage, run them.",
)
app.add_typer(bench_app, name="bench", help="Measure wsched beside its peers (needs a GPU).")
app.command()(tune)
app.add_typer(plugin_app, name="plugin", help="nvFuser's heuristic plugin with wsched's choices.")


def _found(file: Path | None) -> Path | None:
    """The same file, or the end where there is none."""
    if file is None or file == STDIN or file.is_file():
        return file
    what = "is a folder" if file.is_dir() else "does not exist"
    raise typer.BadParameter(f"file '{file}' {what}.")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


File = Annotated[
    Path,
    typer.Argument(
        help="A definition as nvFuser prints it (repr(fd)), or a schedule of one; - reads stdin.",
        callback=_found,
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        "--shape",
        metavar="MxNxK",
        help="Problem size; by default the definition's, 256x256x512 where it is symbolic.",
    ),
]
Sms = Annotated[
    int | None,
    typer.Option(
        "--sms",
        min=1,
        help="Multiprocessors of the device to plan for; by default those of the GPU that is here, "
        f"else {H200_SMS}, those of an H200.",
    ),
]
Params = Annotated[
    str | None,
    typer.Option(
        "--params",
        metavar="NAME|FILE.json",
        help=f"A schedule in place of the heuristic's: {', '.join(PRESETS)}, or a JSON file with "
        "fields of MatmulParams.",
    ),
]


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
def dump(
    file: File,
    stage: Annotated[
        str,
        typer.Option(
            "--stage",
            help="schedule (a text to change and give in FILE's place), fusion, subdags, dot "
            "(Graphviz), loops, lower, the name of a pass, kernel, cuda, ptx, sass; 'all' writes a "
            "file for each but schedule.",
        ),
    ] = "loops",
    shape: Shape = None,
    sms: Sms = None,
    params: Params = None,
    folder: Annotated[Path, typer.Option("--dir", help="Where 'all' goes.")] = Path("wsched-dump"),
) -> None:
    """Print one stage of a definition's kernel, or write all of them."""
    definition, extents = _read(file, shape)
    sms = multiprocessors(sms)
    if stage == "schedule":
        typer.echo(str(schedule_for(definition, extents, sms, _params(params))), nl=False)
        return
    kernel = kernel_for(definition, extents, sms, _params(params))
    if stage != "all":
        typer.echo(kernel.dump(stage), nl=False)
        typer.echo(_planned(definition, sms), err=True, nl=False)  # programs read the other
        return
    try:
        dumps = kernel.dump_all(folder / kernel.kernel.name)
    except OSError as e:
        raise typer.BadParameter(f"{folder}: {e.strerror}", param_hint="--dir") from None
    for path in dumps.files:
        typer.echo(path)
    for reason in dumps.missing:
        typer.echo(f"without {reason}", err=True)


@app.command()
def run(
    file: File,
    shape: Shape = None,
    sms: Sms = None,
    params: Params = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random inputs.")] = 0,
) -> None:
    """Run a definition on random inputs and check the result; exit status 1 if it is wrong."""
    from wsched.cli.check import check, device, sized_inputs

    definition, extents = _read(file, shape)
    where = device()
    sms = multiprocessors(sms)
    kernel = kernel_for(definition, extents, sms, _params(params))
    outcome = check(kernel, sized_inputs(kernel, extents, seed, where))
    typer.echo(f"{outcome.text}{_planned(definition, sms)}", nl=False)
    raise typer.Exit(0 if outcome.passed else 1)


@app.command()
def trace(
    file: File,
    shape: Shape = None,
    sms: Sms = None,
    params: Params = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random inputs.")] = 0,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write the time line for ui.perfetto.dev.")
    ] = None,
    plot_path: Annotated[
        Path | None, typer.Option("--plot", help="Write the first CTAs' time line as a PNG.")
    ] = None,
) -> None:
    """Run a definition with clocks: when each warp waited, computed and stored."""
    from wsched.cli.check import device, sized_inputs

    if find_spec("torch") is None:
        raise UnsupportedError("tracing without torch", "torch tensors", "Install torch")
    definition, extents = _read(file, shape)
    where = device()
    sms = multiprocessors(sms)
    kernel = kernel_for(definition, extents, sms, _params(params))
    found = kernel.trace(*sized_inputs(kernel, extents, seed, where))
    typer.echo(f"{found.table()}{_planned(definition, sms)}", nl=False)
    for write, path, name in (
        (found.save, json_path, "--json"),
        (found.plot, plot_path, "--plot"),
    ):
        try:
            if path is not None:
                write(path)
        except OSError as e:
            raise typer.BadParameter(f"{path}: {e.strerror}", param_hint=name) from None


@app.command(name="explain")
def explain_command(
    file: File,
    shape: Shape = None,
    sms: Sms = None,
    params: Params = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which way a definition goes on a GPU, every choice and every refusal."""
    asked, given = _asked(shape), _params(params)
    definition, sms = _definition(file), multiprocessors(sms)
    with _named(file):
        found = explain_definition(
            definition,
            f"{DEFAULT.gpu} with {sms} multiprocessors",
            lambda fusion: extents_for(fusion, asked).problem(fusion, sms),
            given,
            sms,
        )
    if asked is not None and found.kernel is None:
        why = _why_no_kernel(definition, found)
        if why or found.parts:
            why = why or "a definition of several parts has the sizes that it says"
            raise typer.BadParameter(why, param_hint="--shape")
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return
    typer.echo(str(found))
    if found.kernel is not None:
        extents = Extents.parse(found.kernel.problem)
        typer.echo(side_by_side(kernel_for(definition, extents, sms, given).fusion), nl=False)


@app.command(name="check")
def check_command(
    file: File,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    proof: Annotated[
        bool, typer.Option("--proof", help="Print what is proved of a definition's kernel instead.")
    ] = False,
    shape: Shape = None,
    params: Params = None,
) -> None:
    """Print a schedule's loops and say whether it is legal, or why not; exit status 1 if not."""
    if proof:
        definition, extents = _read(file, shape)
        proved = kernel_for(definition, extents, multiprocessors(None), _params(params)).proof()
        typer.echo(json.dumps(proved.to_dict(), indent=2) if as_json else str(proved))
        raise typer.Exit(0 if proved.proved else 1)
    text = _text(file)
    with _named(file, ScheduleError):
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
        typer.Argument(help="A definition, - for stdin; by default a linear.", callback=_found),
    ] = None,
    params: Params = None,
    legal: Annotated[bool, typer.Option("--legal", help="Leave out what is refused.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a tile each.")] = False,
) -> None:
    """Say which tiles a definition's kernel can have, and why not the others."""
    from wsched.front.legal_tiles import legal_tiles, tiles_table, to_dict

    if file is None:
        choices = legal_tiles(params=_params(params))
    else:
        text = _text(file)
        with _named(file):
            choices = legal_tiles(text, params=_params(params))
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
            typer.echo(f"{f.state.value:>8}  {f.name}: {f.found}")
            if f.advice:
                typer.echo(f"{'':>10}{f.advice}")
    if as_json:
        plain = {"findings": [f.to_dict() for f in found], "verdict": verdict(found)}
        typer.echo(json.dumps(plain, indent=2))
    else:
        typer.echo(f"\n{verdict(found)}")
    raise typer.Exit(1 if any(f.state is State.FAILS for f in found) else 0)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def _read(file: Path, shape: str | None) -> tuple[str | Schedule, Extents]:
    """A definition or schedule, and the extents to look at; errors name the file."""
    asked, found = _asked(shape), _definition(file)
    with _named(file):
        fusion = found.fusion if isinstance(found, Schedule) else import_fusion(found)
    return found, extents_for(fusion, asked)


def _why_no_kernel(definition: str | Schedule, found: Explanation) -> str:
    """Why a definition that has a kernel has none of the sizes asked for; empty where it has none
    of any.
    """
    try:
        import_fusion(definition)
    except UnsupportedError:
        return ""
    return next((r.reason for r in found.refusals if r.what == WSCHED), "")


def _definition(file: Path) -> str | Schedule:
    """What a file has; an error names it."""
    text = _text(file)
    with _named(file, ScheduleError):
        return read_definition(text)


def _planned(definition: str | Schedule, sms: int) -> str:
    """What a kernel was planned for; empty of a schedule, which is what it is."""
    return "" if isinstance(definition, Schedule) else f"  planned for {sms} multiprocessors\n"


def _asked(shape: str | None) -> Extents | None:
    try:
        return None if shape is None else Extents.parse(shape)
    except ValueError as e:
        raise typer.BadParameter(str(e), param_hint="--shape") from None


def _params(asked: str | None) -> MatmulParams | None:
    try:
        return None if asked is None else read_params(asked)
    except ParamsError as e:
        raise typer.BadParameter(str(e), param_hint="--params") from None


def _text(file: Path) -> str:
    try:
        data = sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        text = f"{file}: line {line}: the byte {data[e.start]:#04x}, which is not UTF-8"
        raise typer.BadParameter(text, param_hint="FILE") from None
    except OSError as e:
        raise typer.BadParameter(f"{file}: {e}", param_hint="FILE") from None


@contextmanager
def _named(file: Path, also: type[WschedError] = UnsupportedError) -> Iterator[None]:
    """End with status 2 and the file's name where it is not supported, or raises another error."""
    try:
        yield
    except (UnsupportedError, also) as e:
        typer.echo(f"{file}: {e}", err=True)
        raise typer.Exit(2) from None


def main() -> None:
    """Run the command line."""
    app()
