"""``wsched why``: what is lost between the roofline and the time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lowering.ground.errors import UnsupportedError
from wsched.cli.check import device, sized_inputs
from wsched.cli.options import (
    File,
    Params,
    Shape,
    asked_params,
    file_of,
    named,
    read_definition_file,
    read_problem,
    require_folder,
)
from wsched.front.known import import_fusion
from wsched.front.schedule import Schedule
from wsched.front.sizes import kernel_for
from wsched.losses.why import Why, why_of_parts
from wsched.losses.why import why as told
from wsched.trace.perfetto import load_trace

__all__ = ["why"]


def why(
    file: File,
    shape: Shape = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu",
            help="Plan for H200, H200 NVL, H100 or H100 PCIe; by default the GPU here, else H200.",
        ),
    ] = None,
    params: Params = None,
    measured: Annotated[
        Path | None,
        typer.Option("--measured", help="What trace --json has written, in place of a run."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a waterfall as a PNG.")
    ] = None,
) -> None:
    """Say why a kernel takes as long as it does: roofline, losses and what would mend them."""
    from wsched.losses.text import BLOCK, PLAIN_BLOCK, shown

    require_folder(output, "--output")
    definition = read_definition_file(file)
    parts = _is_cut(definition) and shape is None and params is None and measured is None
    with named(file):
        if parts:
            found = list(why_of_parts(definition, gpu=gpu))
        else:
            found = [_of_one(file, shape, gpu, params, measured)]
    if output is not None:
        if parts:
            raise typer.BadParameter("a picture is of a single kernel", param_hint="--output")
        with file_of(output, "--output"):
            found[0].draw(output)
    if as_json:
        plain = [x.to_dict() for x in found]
        typer.echo(json.dumps(plain if parts else plain[0], indent=2))
        return
    console = Console()
    block = PLAIN_BLOCK if console.options.ascii_only else BLOCK
    for x in found:
        for part in shown(x, block):
            console.print(part)


def _is_cut(definition: str | Schedule) -> bool:
    """Whether a definition is no single kernel."""
    if isinstance(definition, Schedule):
        return False
    try:
        import_fusion(definition)
    except UnsupportedError:
        return True
    return False


def _of_one(
    file: Path, shape: str | None, gpu: str | None, params: str | None, measured: Path | None
) -> Why:
    """Why of a single kernel, beside what was measured."""
    definition, extents = read_problem(file, shape)
    given, line = asked_params(params), None
    if measured is not None:
        with file_of(measured, "--measured"):
            line = load_trace(measured)
    if device() == "cuda" and gpu is None and line is None:
        kernel = kernel_for(definition, extents, params=given)
        return told(definition, sized_inputs(kernel, extents, 0, "cuda"), params=given)
    return told(definition, str(extents), gpu=gpu, params=given, measured=line)
