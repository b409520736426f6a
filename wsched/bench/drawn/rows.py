"""``wsched bench rows``: few rows, as of decoding, where weights are streamed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from lowering.ground.errors import UnsupportedError
from lowering.ground.natural import natural
from wsched.bench.drawn.command import Asked, measure, show_lines
from wsched.bench.drawn.problems import Drawn
from wsched.bench.drawn.results import Line
from wsched.bench.method.measure import Plan
from wsched.bench.method.statistic import ratios_text

__all__ = ["MEMORY_TBS", "Streamed", "problems_of", "rows", "streamed", "totals"]

ROWS = "1,2,4,8,16,32,64"

LAYERS = "6144x4096,4096x4096,28672x4096,4096x14336,10240x8192,8192x8192,57344x8192,8192x28672"
"""N and K of LLaMA-3 8B and 70B, gate and up as one matmul."""

MEMORY_TBS = 4.3
"""What of 4.8 TB/s an H200's memory gives to reads."""

LARGE_MIB = 200
"""Weights from 64 MiB on, and those above this, are told apart."""

LIMIT = 0.97


@dataclass(frozen=True, slots=True)
class Streamed:
    """A line with what its time means for memory.

    Args:
        line: what was measured.
        mib: size of the weights.
        us: time of what is taken; None where that or cuBLAS failed.
        share: of :data:`MEMORY_TBS`, at which the weights alone come; None as before.
    """

    line: Line
    mib: float
    us: float | None
    share: float | None


def rows(
    rows: str = typer.Option(ROWS, help="M, separated by commas."),
    layers: str = typer.Option(LAYERS, help="NxK of the weights, separated by commas."),
    first: int = typer.Option(
        0, min=0, help="Schedules of the cost model, beside variants; 0: only what is taken."
    ),
    rounds: int = typer.Option(8, min=1, help="Counted rounds."),
    replay_ms: float = typer.Option(10.0, min=0.1, help="Time of a system in such a round."),
    seed: int = typer.Option(1, help="Of the operands and the order."),
    seconds: float = typer.Option(
        0.0, min=0.0, help="Begin no problem after so many; a later run goes on. 0: no limit."
    ),
    timeout: float = typer.Option(60.0, min=1.0, help="Seconds of silence until a hang is told."),
    jobs: int = typer.Option(0, min=0, help="Processes that compile; 0: one for each processor."),
    json_path: Path | None = typer.Option(
        None, "--json", help="Append a line for each problem; what it has is not measured again."
    ),
) -> None:
    """Measure few rows beside cuBLAS: y = x · Wᵀ with weights that no cache has.

    Tells what share of the memory's bandwidth the weights come at. The file is that of `wsched
    bench random`, as are Ctrl-C and the exit status.
    """
    wanted = problems_of(rows, layers)
    plan = Plan(rounds, replay_ms)
    measure(Asked(wanted, plan, first, seed, seconds, timeout, jobs, json_path), _show)


def problems_of(rows: str, layers: str) -> tuple[Drawn, ...]:
    """The problems of all rows with all layers, each once.

    Raises:
        UnsupportedError: something else than numbers and pairs of them.
    """
    ms = [_numbers("--rows", word, 1, "16,64")[0] for word in rows.split(",")]
    sizes = [_numbers("--layers", word, 2, "4096x14336") for word in layers.split(",")]
    return tuple(dict.fromkeys(Drawn(m, n, k, "tn") for m, (n, k) in product(ms, sizes)))


def _numbers(option: str, word: str, count: int, such_as: str) -> tuple[int, ...]:
    """The positive numbers of a word such as 4096x14336."""
    found = tuple(natural(n) or 0 for n in word.strip().split("x"))
    if len(found) != count or not all(found):
        raise UnsupportedError(f"{option} {word.strip()}", f"such as {such_as}")
    return found


def streamed(line: Line) -> Streamed:
    """A line with the bandwidth of its weights, two bytes an element."""
    p = line.problem
    size = 2 * p.n * p.k
    if line.cublas_us is None or line.choice_ratio is None:
        return Streamed(line, size / 2**20, None, None)
    us = line.cublas_us / line.choice_ratio
    return Streamed(line, size / 2**20, us, size / us / (MEMORY_TBS * 1e6))


def totals(found: Sequence[Streamed]) -> list[str]:
    """Texts: about the ratios, and the least share of each size of weights."""
    ratios = [s.line.choice_ratio for s in found if s.line.choice_ratio is not None]
    if not ratios:
        return ["nothing was measured"]
    text = ratios_text(ratios, LIMIT)
    told = [f"choice over cuBLAS at {len(ratios)} problems: {text}"]
    for name, low, high in (
        (f"64 to {LARGE_MIB} MiB", 64, LARGE_MIB),
        (f"more than {LARGE_MIB} MiB", LARGE_MIB, float("inf")),
    ):
        shares = [s.share for s in found if s.share is not None and low <= s.mib <= high]
        if shares:
            told.append(
                f"weights of {name}: at least {min(shares):.0%} of {MEMORY_TBS:g} TB/s at "
                f"{len(shares)} problems"
            )
    return told


def _show(lines: list[Line], gpu: dict[str, Any]) -> None:
    found = [streamed(line) for line in lines]
    title = f"{gpu.get('name', 'GPU')}, bf16, weights from memory: ratios to cuBLAS"
    show_lines(lines, _table(found, title), totals(found))


def _table(found: Sequence[Streamed], title: str) -> Table:
    head = ("M, N, K", "MiB", "cuBLAS µs", "choice", "µs", "ratio", f"of {MEMORY_TBS:g} TB/s")
    made = Table(*head, title=title, title_justify="left")
    for at in (1, 2, 4, 5, 6):
        made.columns[at].justify = "right"
    for s in found:
        p, ratio = s.line.problem, s.line.choice_ratio
        made.add_row(
            f"{p.m}, {p.n}, {p.k}",
            f"{s.mib:.0f}",
            "–" if s.line.cublas_us is None else f"{s.line.cublas_us:.1f}",
            s.line.choice,
            "–" if s.us is None else f"{s.us:.1f}",
            "–" if ratio is None else f"{ratio:.3f}",
            "–" if s.share is None else f"{s.share:.0%}",
        )
    return made
