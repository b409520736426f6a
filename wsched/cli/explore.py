"""``wsched explore``: a kernel as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lowering.ground.files import save_file
from wsched.cli.asked import asked_kernel
from wsched.cli.options import (
    File,
    Params,
    Shape,
    Sms,
    TargetName,
    asked_extents,
    file_of,
    named,
    read_definition_file,
    require_folder,
)
from wsched.explore.model import Asked, book_of
from wsched.explore.page import page_html
from wsched.front.schedule import Schedule
from wsched.trace.perfetto import load_trace

__all__ = ["explore"]


def explore(
    file: File,
    shape: Shape = None,
    sms: Sms = None,
    params: Params = None,
    target: TargetName = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", help="A recorded run to show, as wsched trace --json wrote it."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The page, one file of HTML.")
    ] = Path("page.html"),
) -> None:
    """Write a page of a definition's kernels: parts, loops, passes, code, the machine at work."""
    require_folder(output, "--output")
    definition = read_definition_file(file)
    made = asked_kernel(definition, params, target, sms)
    text = str(definition) if isinstance(definition, Schedule) else definition
    asked = Asked(
        definition, text, asked_extents(shape), made.sms, made.device, made.params, made.planned
    )
    line = None
    if trace is not None:
        with file_of(trace, "--trace"):
            line = load_trace(trace)
    with named(file):
        page = page_html(book_of(asked, line)).encode()
    with file_of(output, "--output"):
        save_file(output, page)
    typer.echo(f"{output}: {len(page) / 1e6:.2f} MB, opens in a browser without a network")
