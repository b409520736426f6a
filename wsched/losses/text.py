"""Why a kernel takes as long as it does, as a text of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from math import log10
from textwrap import fill
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wsched.losses.facts import Facts
from wsched.predict.shares import meanings, shares_table

if TYPE_CHECKING:
    from rich.console import RenderableType


__all__ = ["BLOCK", "PLAIN_BLOCK", "WIDTH", "plain", "shown"]

WIDTH = 80
"""Columns of a terminal."""

BAR = 24
"""Columns of the largest bar."""

BLOCK, PLAIN_BLOCK = "█", "#"
"""What bars are made of, and where a terminal's encoding has no blocks."""

SHOWN_US = 0.005
"""What is shorter has no line."""

_PREFIXES = ("", "k", "M", "G", "T", "P")


def plain(why: Facts) -> str:
    """The text without colours."""
    out = StringIO()
    console = Console(file=out, width=WIDTH, color_system=None)
    for part in shown(why):
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def shown(why: Facts, block: str = BLOCK) -> Iterator[RenderableType]:
    """Its parts, one below the other, with bars of a character."""
    yield Text(f"{why.problem} on {why.gpu}, {why.sms} multiprocessors", style="bold")
    yield Text(f"  {why.kernel}")
    yield _wrapped("", _first(why))
    yield _bounds(why)
    yield _wrapped("", _pipe(why))
    yield _waterfall(why, block)
    yield Text("What would mend the largest", style="bold")
    for mended in why.largest:
        loss = mended.loss
        yield _wrapped("  ", f"{loss.effect}, {loss.us:.1f} us: {loss.about}")
        for mend in mended.mends or ("nothing that the model knows of",):
            yield _wrapped("    - ", str(mend))
    if why.waits:
        yield shares_table(why.waits)
        yield Text(meanings())
    else:
        yield _wrapped("", f"Waits are not known: {why.unknown}")
    if why.measured is not None:
        yield Text("A launch, predicted beside measured", style="bold")
        yield Text(why.measured.table().rstrip())


def _wrapped(before: str, text: str) -> Text:
    """Lines of at most :data:`WIDTH` columns, further ones as far in as the first."""
    return Text(fill(text, WIDTH, initial_indent=before, subsequent_indent=" " * len(before)))


def _scaled(amount: float, unit: str) -> str:
    """Three digits, with the prefix that leaves one to three in front of the point."""
    power = min(max(int(log10(max(amount, 1.0)) // 3), 0), len(_PREFIXES) - 1)
    return f"{amount / 1000**power:.4g} {_PREFIXES[power]}{unit}"


def _first(why: Facts) -> str:
    r = why.roofline
    table = "" if why.tuned_us is None else f"; a table has it, measured at {why.tuned_us:.1f} us"
    return (
        f"predicted {why.us:.1f} us; no schedule is faster than {r.us:.1f} us, by {r.bound}: "
        f"{100 * r.us / why.us:.0f} %{table}"
    )


def _bounds(why: Facts) -> Table:
    """What is computed and moved, and at what rate at most."""
    table = Table(title="Roofline", title_justify="left", title_style="bold")
    for name in ("", "of a launch", "at least", "at most", "alone us"):
        table.add_column(name, justify="left" if not name else "right")
    r = why.roofline
    for t, unit in ((r.flop, "FLOP"), (r.l2, "B"), (r.memory, "B")):
        amounts = (_scaled(x, unit) for x in (t.amount, t.least))
        table.add_row(t.name, *amounts, f"{_scaled(t.rate * 1e6, unit)}/s", f"{t.us:.1f}")
    return table


def _pipe(why: Facts) -> str:
    share = f"Tensor cores work in {100 * why.tensor_share:.0f} % of the cycles. "
    if why.joules is None:
        return f"{share}Energy: no data sheet of {why.gpu} is known here."
    most = "" if why.limited else "at most "
    return (
        f"{share}A launch takes {most}{why.joules:.3g} J: {why.watts} W, the board's limit, "
        f"{'which it is held to' if why.limited else 'which it does not reach'}."
    )


def _waterfall(why: Facts, block: str) -> Table:
    """From the roofline to what is predicted."""
    table = Table(title="From the roofline to the prediction", title_justify="left",
                  title_style="bold", box=None, pad_edge=False)  # fmt: skip
    table.add_column("")
    table.add_column("us", justify="right")
    table.add_column("")
    table.add_row("roofline", f"{why.roofline.us:.2f}", "")
    most = max((x.us for x in why.losses), default=0.0)
    for x in why.losses:
        if x.us >= SHOWN_US:
            table.add_row(x.effect, f"+{x.us:.2f}", block * max(round(BAR * x.us / most), 1))
    table.add_row("predicted", f"{why.us:.2f}", "")
    return table
