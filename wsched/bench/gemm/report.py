"""What a run looks like: a table, a Markdown table, and notes on what is not in them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.table import Table
from rich.text import Text

from wsched.bench.gemm.results import BAD, Cell, Summary
from wsched.bench.peers.systems import REFERENCE, is_own
from wsched.bench.problem import Shape

__all__ = ["markdown", "notes", "rows", "table"]


def rows(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Return the head and the lines of the table, the geometric mean last.

    A cell is ``TFLOP/s ± half the distance of the quartiles (ratio to cuBLAS)``.
    """
    own = [n for n in summary.systems if is_own(n)]
    head = ["M, N, K", *summary.systems, *(f"{n} / best peer" for n in own)]
    lines = []
    for shape in summary.shapes:
        cells = [_cell(n, summary.cells[shape, n]) for n in summary.systems]
        best = [summary.cells[shape, n].best_peer for n in own]
        size = f"{shape.m}, {shape.n}, {shape.k}"
        lines.append([size, *cells, *("–" if b is None else f"{b:.3f}" for b in best)])
    means = [_mean(summary.mean_ratio(n), summary) for n in summary.systems]
    best_means = [_mean(summary.mean_best_peer(n), summary) for n in own]
    lines.append(["geometric mean", *means, *best_means])
    return head, lines


def _cell(name: str, cell: Cell) -> str:
    if cell.tflops is None:
        return cell.status
    spread = (cell.tflops.high - cell.tflops.low) / 2
    text = f"{cell.tflops.median:.0f} ±{spread:.0f}"
    if cell.ratio is not None and name != REFERENCE:
        text += f" ({cell.ratio.median:.3f})"
    return text


def _mean(mean: tuple[float, int] | None, summary: Summary) -> str:
    if mean is None:
        return "–"
    every = len(summary.shapes)
    few = "" if mean[1] == every else f" ({mean[1]} of {every})"
    return f"{mean[0]:.3f}{few}"


def table(summary: Summary, title: str) -> Table:
    """Return the table for a terminal; what failed or is wrong is red."""
    head, lines = rows(summary)
    made = Table(*head, title=title, title_justify="left")
    for column in made.columns[1:]:
        column.justify = "right"
    for line in lines[:-1]:
        made.add_row(*(Text(word, style="bold red" if word in BAD else "") for word in line))
    made.add_section()
    made.add_row(*lines[-1])
    return made


def markdown(summary: Summary) -> str:
    """Return the table for a document."""
    head, lines = rows(summary)
    ruler = ["---", *("---:" for _ in head[1:])]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ruler, *lines))


def notes(summary: Summary, processes: Sequence[dict[str, Any]]) -> list[str]:
    """Return lines on what was left out and why, on energy, clocks and power."""
    return [
        *_left_out(summary),
        *_energy(summary),
        *(_clocks(s, processes) for s in summary.shapes if _measured(summary, s)),
    ]


def _left_out(summary: Summary) -> list[str]:
    """One line for each system and reason, with the shapes unless they are all."""
    lines = []
    for name in summary.systems:
        at: dict[tuple[str, str], list[Shape]] = {}
        for shape in summary.shapes:
            cell = summary.cells[shape, name]
            if cell.status != "ok":
                at.setdefault((cell.status, cell.reason), []).append(shape)
        for (status, reason), shapes in at.items():
            everywhere = len(shapes) == len(summary.shapes)
            where = "" if everywhere else " at " + ", ".join(map(str, shapes))
            lines.append(f"{name} {status}{where}: {reason}")
    return lines


def _energy(summary: Summary) -> list[str]:
    lines = []
    for shape in summary.shapes:
        cells = {n: summary.cells[shape, n].pj_per_flop for n in summary.systems}
        words = [f"{n} {pj:.3f}" for n, pj in cells.items() if pj is not None]
        if words:
            lines.append(f"{shape}: pJ/FLOP alone: {', '.join(words)}")
    return lines


def _measured(summary: Summary, shape: Shape) -> bool:
    return any(summary.cells[shape, name].tflops is not None for name in summary.systems)


def _clocks(shape: Shape, processes: Sequence[dict[str, Any]]) -> str:
    read = [p["shapes"][str(shape)]["clocks"] for p in processes if str(shape) in p["shapes"]]
    read = [c for c in read if c["samples"]]
    if not read:
        return f"{shape}: clocks and power not read (neither NVML nor nvidia-smi)"
    mhz, watts = median(c["sm_mhz"] for c in read), median(c["watts"] for c in read)
    hottest = max(c["celsius_max"] for c in read)
    return f"{shape}: SM clock {mhz:.0f} MHz, {watts:.0f} W, at most {hottest:.0f} °C"
