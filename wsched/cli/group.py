"""How commands fail, and warn: in one line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import typer
from typer.core import TyperGroup

from lowering.ground.errors import WschedError
from wsched.cli.progress import shown, wanted

__all__ = ["Group"]

_OURS = ("lowering", "passes", "wsched")
"""Packages that are there, so that a module missing in them is a defect."""


class Group(TyperGroup):
    """Commands whose errors are a line and exit status 2, without a traceback: those of wsched, and
    what a machine has too little of.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            with _warned(), shown(sys.stderr) if wanted(ctx.args) else nullcontext():
                return super().invoke(ctx)
        except WschedError as e:
            text = str(e)
        except (MemoryError, RecursionError, OSError, ImportError, RuntimeError) as e:
            text = _of_the_machine(e)
            if not text:
                raise
        typer.echo(text, err=True)
        raise typer.Exit(2)


@contextmanager
def _warned() -> Iterator[None]:
    """What wsched warns of is a line: which of its files says so is nothing to a command's user."""
    with warnings.catch_warnings():
        plain = warnings.showwarning

        def show(message: Any, category: type[Warning], *place: Any, **rest: Any) -> None:
            if str(message).startswith("wsched: "):
                typer.echo(message, err=True)
            else:
                plain(message, category, *place, **rest)

        warnings.showwarning = show
        yield


def _of_the_machine(e: Exception) -> str:
    """What to say of an error that is none of wsched's; empty of a defect, and of a closed pipe."""
    first = (str(e) or type(e).__name__).splitlines()[0]
    match e:
        case BrokenPipeError():
            return ""
        case MemoryError():
            return f"out of memory: {first}"
        case ModuleNotFoundError(name=str() as name):
            package = name.partition(".")[0]
            told = f"this needs {package}, which is not installed here: pip install {package}"
            return "" if package in _OURS else told
        case RecursionError():
            return "nested deeper than Python's stack"
        case RuntimeError():  # of torch: its allocator on the CPU has no class of its own
            memory = type(e).__name__ == "OutOfMemoryError" or "can't allocate memory" in first
            return f"out of memory: {first}" if memory else ""
    return first
