"""Who waits for what, as a table that a terminal of 80 columns holds."""

from __future__ import annotations

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.table import Table

from wsched.predict.activity import ACTIVITIES

__all__ = ["meanings", "narrow", "shares_table"]


def shares_table(rows: Mapping[str, Mapping[str, float]]) -> Table:
    """Shares of what warps do, in percent; no name is cut short.

    Args:
        rows: of each warp, by activity, its part of the time.
    """
    table = narrow("% of the time, by the machine's clock")
    for name in ("warpgroup", *ACTIVITIES):
        table.add_column(name, justify="right", no_wrap=True)
    for name, row in rows.items():
        table.add_row(name, *(f"{100 * row[a]:.0f}" if a in row else "" for a in ACTIVITIES))
    return table


def meanings() -> str:
    """What the columns of that table mean, a line each."""
    return "\n".join(f"  {name}: {meaning}" for name, meaning in ACTIVITIES.items())


def narrow(title: str) -> Table:
    """A table of eight or nine columns for a terminal of 80."""
    return Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False,
        collapse_padding=True,
    )  # fmt: skip
