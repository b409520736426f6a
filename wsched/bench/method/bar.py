"""The progress bar of a measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lowering.ground.progress import told

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[int, str], None]]:
    """Show a bar on standard error, nothing where that is no terminal.

    Yields:
        What sets the number of finished shapes and a text.
    """
    console = Console(stderr=True)
    hidden = not console.is_terminal
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    shown = Progress(*columns, console=console, transient=True, disable=hidden)
    with told(None), shown as bar:
        task = bar.add_task("start", total=total)
        yield lambda finished, text: bar.update(task, completed=finished, description=text)
