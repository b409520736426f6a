"""What commands are given: a definition's file, a problem, a device, parameters."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from lowering.ground.errors import ScheduleError, UnsupportedError, WschedError
from lowering.target.target import Target
from lowering.target.targets import TARGETS
from lowering.target.targets import named as named_target
from wsched.choose.gpus import H200_SMS, MOST_SMS
from wsched.choose.presets import PRESETS, ParamsError, read_params
from wsched.front.known import import_fusion, recorded
from wsched.front.schedule import Schedule
from wsched.front.sizes import Extents, extents_for, read_definition
from wsched.fusion import Fusion
from wsched.importer.input_error import InputError
from wsched.schedule.matmul.params import MatmulParams

__all__ = [
    "File", "Params", "Shape", "Sms", "TargetName", "asked_extents", "asked_params",
    "asked_target", "extents_of", "file_of", "found_file", "has_several", "named", "planned_for",
    "read_definition_file", "read_problem", "require_folder", "text_of",
]  # fmt: skip

STDIN = Path("-")

_ELSEWHERE = "This is about one kernel. `wsched explain` says which way it goes otherwise"


def found_file(file: Path | None) -> Path | None:
    """The same file, or the end where there is none."""
    if file is None or file == STDIN:
        return file
    try:
        if file.exists() and not file.is_dir():
            return file  # also a pipe, which shells make of <(…)
    except OSError as e:  # a folder of others, a name that is too long
        raise typer.BadParameter(f"file '{file}': {e.strerror}.") from None
    what = "is a folder" if file.is_dir() else "does not exist"
    raise typer.BadParameter(f"file '{file}' {what}.")


File = Annotated[
    Path,
    typer.Argument(
        help="A definition as nvFuser prints it (repr(fd)), or a schedule of one; - reads stdin.",
        callback=found_file,
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        "--shape",
        metavar="MxNxK",
        help="Problem size; by default the definition's, 256x256x512 where it is symbolic, and 512 "
        "of each such dimension where it is cut.",
    ),
]
Sms = Annotated[
    int | None,
    typer.Option(
        "--sms",
        min=1,
        max=MOST_SMS,
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
TargetName = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="ARCH",
        help=f"The GPU that the kernel is for: {', '.join(t.arch for t in TARGETS)}; by default "
        "that of the parameters, else the first.",
    ),
]


def read_problem(file: Path, shape: str | None) -> tuple[str | Schedule, Extents]:
    """A definition or schedule, and the extents to look at; errors name the file."""
    asked, found = asked_extents(shape), read_definition_file(file)
    return found, extents_of(file, found, asked)


def extents_of(file: Path, found: str | Schedule, asked: Extents | None) -> Extents:
    """The extents to look at of the definition or schedule of a file, which errors name."""
    with named(file):
        fusion = found.fusion if isinstance(found, Schedule) else _fusion_of(found)
    return extents_for(fusion, asked)


def _fusion_of(definition: str) -> Fusion:
    """The fusion of a definition that is one kernel.

    Raises:
        UnsupportedError: it is none, with where to look; or it cannot be read.
    """
    try:
        return import_fusion(definition)
    except UnsupportedError as e:
        recorded(definition)
        raise UnsupportedError(e.what, e.supported, e.hint or _ELSEWHERE) from None


def has_several(found: str | Schedule) -> bool:
    """Whether what was read of a file is a definition that is no single kernel.

    Raises:
        UnsupportedError: it cannot be read.
    """
    if isinstance(found, Schedule):
        return False
    try:
        import_fusion(found)
    except UnsupportedError:
        recorded(found)
        return True
    return False


def read_definition_file(file: Path) -> str | Schedule:
    """What a file has; an error names it."""
    text = text_of(file)
    with named(file, ScheduleError):
        return read_definition(text)


def asked_extents(shape: str | None) -> Extents | None:
    """The problem that was asked for; None for what the definition says."""
    try:
        return None if shape is None else Extents.parse(shape)
    except ValueError as e:
        raise typer.BadParameter(str(e), param_hint="--shape") from None


def asked_params(asked: str | None) -> MatmulParams | None:
    """The parameters that were asked for; None for the heuristic's."""
    try:
        return None if asked is None else read_params(asked)
    except ParamsError as e:
        raise typer.BadParameter(str(e), param_hint="--params") from None


def asked_target(asked: str | None) -> Target | None:
    """The target that was asked for; None for that of the parameters."""
    try:
        return None if asked is None else named_target(asked)
    except UnsupportedError as e:
        raise typer.BadParameter(str(e), param_hint="--target") from None


def text_of(file: Path) -> str:
    """What a file has, or stdin."""
    if file == STDIN and sys.stdin is None:
        raise typer.BadParameter("-: standard input is closed", param_hint="FILE")
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
def file_of(path: Path, option: str) -> Iterator[None]:
    """End with status 2, the path and why, where a file that an option names cannot be read or
    written.
    """
    try:
        yield
    except OSError as e:
        raise typer.BadParameter(f"{path}: {e.strerror}", param_hint=option) from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{path}: no text in UTF-8", param_hint=option) from None


def require_folder(path: Path | None, option: str) -> None:
    """End with status 2 where there is no folder for a file that an option names, or it is one
    itself: said before what goes there takes minutes.
    """
    if path is None:
        return
    if not path.parent.is_dir():
        raise typer.BadParameter(f"{path}: no such folder", param_hint=option)
    if path.is_dir():
        raise typer.BadParameter(f"{path}: a folder, where a file is to be", param_hint=option)
    is_special = path.exists() and not path.is_file()
    if not (is_special or os.access(os.path.dirname(os.path.realpath(path)), os.W_OK)):
        raise typer.BadParameter(f"{path}: in a folder that cannot be written", param_hint=option)


def planned_for(definition: str | Schedule, sms: int) -> str:
    """What a kernel was planned for, as a line; empty of a schedule, which is what it is."""
    return "" if isinstance(definition, Schedule) else f"  planned for {sms} multiprocessors\n"


@contextmanager
def named(file: Path, also: type[WschedError] = UnsupportedError) -> Iterator[None]:
    """End with status 2 and the file's name where it is not supported, nothing fits it, or it
    raises another error.
    """
    try:
        yield
    except (UnsupportedError, InputError, also) as e:
        typer.echo(f"{file}: {e}", err=True)
        raise typer.Exit(2) from None
