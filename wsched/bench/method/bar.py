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
    """Show a bar on standard error; yields what sets the number of finished shapes and a text."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with told(None), Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("start", total=total)
        yield lambda finished, text: bar.update(task, completed=finished, description=text)
