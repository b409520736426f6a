"""Tables that stay readable: every number in whole, in 80 columns, in a file and in a pipe."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

__all__ = ["show_table"]

_NAME = 12
"""Columns that a name has at least, before it folds."""

_FRAME = 3
"""Characters beside each column: a line and a space on either side."""

_ANY = 10_000
"""More columns than a table has."""


def show_table(table: Table, console: Console | None = None) -> None:
    """Print a table.

    What is right-aligned stays in one line, names fold into several. Where that is still too wide
    for the terminal, lines run on instead of losing their ends; what is no terminal gets lines as
    long as they are.

    Args:
        table: what to print.
        console: where to; by default standard output.
    """
    console = console or Console()
    for column in table.columns:
        widest = max(console.measure(cell).maximum for cell in (column.header, *column.cells))
        column.no_wrap = column.justify == "right"
        column.min_width = widest if column.no_wrap else min(_NAME, widest)
        column.overflow = "fold"
    whole = console.measure(table, options=console.options.update(max_width=_ANY)).maximum
    folded = sum((column.min_width or 0) + _FRAME for column in table.columns) + 1
    own = console.width
    console.width = max(own, folded if console.is_terminal else whole)
    try:
        console.print(table)
    finally:
        console.width = own
