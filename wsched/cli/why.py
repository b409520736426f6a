"""``wsched why``: what is lost between the roofline and the time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wsched.cli.check import device, sized_inputs
from wsched.cli.options import (
    File,
    Params,
    Shape,
    asked_params,
    file_of,
    named,
    read_problem,
)
from wsched.front.sizes import kernel_for
from wsched.trace.perfetto import load_trace

__all__ = ["why"]


def why(
    file: File,
    shape: Shape = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu", help="Plan for H200, H100 or H100 PCIe; by default the GPU here, else H200."
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
    from wsched.losses.text import shown
    from wsched.losses.why import why as told

    definition, extents = read_problem(file, shape)
    given, recorded = asked_params(params), None
    if measured is not None:
        with file_of(measured, "--measured"):
            recorded = load_trace(measured)
    problem = str(extents)
    with named(file):
        if device() == "cuda" and gpu is None and recorded is None:
            kernel = kernel_for(definition, extents, params=given)
            found = told(definition, sized_inputs(kernel, extents, 0, "cuda"), params=given)
        else:
            found = told(definition, problem, gpu=gpu, params=given, recorded=recorded)
    if output is not None:
        with file_of(output, "--output"):
            found.draw(output)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return
    console = Console()
    for part in shown(found):
        console.print(part, highlight=False)
