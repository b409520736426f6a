"""``wsched plugin``: nvFuser's heuristic plugin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lowering.cuda.cache import default_directory
from wsched.choose.gpus import MOST_SMS
from wsched.nvfuser.plugin import build_plugin
from wsched.nvfuser.plugin_source import SMS
from wsched.version import __version__

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def plugin() -> None:
    """Give any program on nvFuser wsched's choice of matmul schedules."""


@app.command()
def build(
    output: Annotated[
        Path | None,
        typer.Option("--output", help="The file to write; by default one in the user's cache."),
    ] = None,
    sms: Annotated[
        int,
        typer.Option(
            "--sms", min=1, max=MOST_SMS, help="Multiprocessors of the device to plan for."
        ),
    ] = SMS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compile the plugin and print the line that makes nvFuser load it."""
    folder = default_directory() / "plugin"
    try:
        made = build_plugin(folder, __version__, output, sms)
    except OSError as e:
        where = output or folder
        raise typer.BadParameter(f"{where}: {e.strerror}", param_hint="--output") from None
    typer.echo(json.dumps(made.to_dict(), indent=2) if as_json else made.export)
