"""``wsched ladder --to-choice``: from the last rung to what is taken for a problem."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from wsched.choose.gpus import GPUS, Gpu
from wsched.cli.check import device

if TYPE_CHECKING:
    from wsched.ladder.choice import Turn

__all__ = ["show_way"]


def show_way(console: Console, sizes: tuple[int, int, int], as_json: bool) -> None:
    """Print the way for M, N and K; on a GPU each schedule is run, checked and measured in turn."""
    from wsched.ladder.choice import to_choice

    turns = to_choice(*sizes, _gpu())
    times: Sequence[float] = ()
    if device() == "cuda":
        from wsched.ladder.measure import measure

        times = measure({str(n): turn.kernel for n, turn in enumerate(turns)}, *sizes)
    if as_json:
        measured: Sequence[float | None] = times or [None] * len(turns)
        found = [turn.to_dict(*sizes, us) for turn, us in zip(turns, measured, strict=True)]
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    console.print(_table(turns, sizes, times))


def _gpu() -> Gpu:
    """The GPU that is here, else an H200."""
    if device() == "cpu":
        return GPUS["H200"]
    import torch

    return Gpu.of(torch.cuda.get_device_properties(torch.cuda.current_device()))


def _table(turns: Sequence[Turn], sizes: tuple[int, int, int], times: Sequence[float]) -> Table:
    """Of each turn the decision, how fast it is, and its share of the choice; no measured times
    where there is no GPU.
    """
    from wsched.ladder.climb import rate

    title = f"from the last rung to the choice for {'x'.join(map(str, sizes))}, bf16"
    table = Table(title=title, title_justify="left")
    table.add_column("decision", overflow="fold")
    columns = {"predicted TFLOP/s": [turn.us for turn in turns]}
    if times:
        columns["measured"] = list(times)
    for name in columns:
        table.add_column(name, justify="right")
        table.add_column("of the choice", justify="right")
    for at, turn in enumerate(turns):
        row = [turn.decision or "the last rung"]
        for us in columns.values():
            row += [f"{rate(*sizes, us[at]):.1f}", f"{us[-1] / us[at]:.3f}"]
        table.add_row(*row)
    return table
