"""The tables of ``wsched ladder``: what each rung decides, how fast it is, who waits for what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table

    from wsched.ladder.climb import Step

__all__ = ["show_tables"]


def show_tables(
    console: Console,
    steps: Sequence[Step],
    sizes: tuple[int, int, int],
    times: Sequence[float | None],
) -> None:
    """Print them.

    Args:
        console: where.
        steps: rungs of one target.
        sizes: M, N and K.
        times: microseconds of each that a GPU took; None where none was asked.
    """
    from wsched.predict.shares import meanings, shares_table

    lanes = ((s, lane) for s in steps for lane in s.shown.lanes)
    shares = {f"{s.rung.name} {x.name}": x.shares(s.shown.cycles) for s, x in lanes}
    console.print(_table(steps, sizes, times))
    console.print(shares_table(shares))
    console.print(meanings(), markup=False, highlight=False)
    if not steps[0].priced:
        text = "not measured: no such GPU; cycles are by assumptions (design/ladder-sm_100a.md)"
        console.print(text, markup=False, highlight=False)


def _table(
    steps: Sequence[Step], sizes: tuple[int, int, int], times: Sequence[float | None]
) -> Table:
    """What each decides and how fast it is."""
    from wsched.ladder.climb import rate
    from wsched.predict.shares import narrow

    table = narrow(f"{'x'.join(map(str, sizes))}, bf16")
    for name in ("rung", "decision", "threads", "registers", "KiB", "CTAs of\nan SM"):
        words = (word for s in steps for word in (s.decision or s.rung.title).split())
        longest = max(map(len, words)) if name == "decision" else None
        table.add_column(name, min_width=longest)
    priced, measured = steps[0].priced, any(us is not None for us in times)
    for name in (*(["predicted\nTFLOP/s"] * priced), *(["measured"] * measured)):
        table.add_column(name, justify="right")
    for step, us in zip(steps, times, strict=True):
        k, p = step.kernel, step.prediction
        row = [step.rung.name, step.decision or step.rung.title]
        row += [str(k.kernel.threads), str(k.resources.registers)]
        row += [f"{k.kernel.shared_bytes / 1024:.0f}", str(p.tiles)]
        if priced:
            row.append(f"{rate(*sizes, p.us(step.rung.decided, *sizes)):.1f}")
        table.add_row(*row, *([f"{rate(*sizes, us):.1f}"] if us is not None else []))
    return table
