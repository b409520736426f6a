"""What was measured of drawn problems comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.table import Table

from wsched.bench.drawn.problems import Drawn
from wsched.bench.gemm.results import broken_systems
from wsched.bench.method.statistic import paired_ratios, ratios_text
from wsched.bench.peers.systems import REFERENCE

__all__ = ["LIMIT", "SCHEMA", "Line", "line_of", "table", "totals"]

SCHEMA = "wsched.bench.random/1"

LIMIT = 0.95
"""A ratio to cuBLAS below it is counted."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a problem's measurement comes to.

    Args:
        problem: which.
        cublas_us: time of cuBLAS; None where it failed.
        choice: name of what wsched takes.
        choice_ratio: cuBLAS's time over its, median of the rounds; None where either failed.
        best: name of the fastest schedule; empty where none was right.
        best_ratio: as ``choice_ratio``, of that.
        broken: systems that failed or were wrong, with the reason.
        refused: why wsched has no kernel; empty if it has one.
    """

    problem: Drawn
    cublas_us: float | None
    choice: str
    choice_ratio: float | None
    best: str
    best_ratio: float | None
    broken: dict[str, str]
    refused: str = ""


def line_of(problem: Drawn, result: dict[str, Any]) -> Line:
    """Return the line of a result of ``worker.measure_drawn``."""
    systems, choice = result["systems"], result["choice"]
    right = {
        n: r["times_us"] for n, r in systems.items() if r["status"] == "ok" and "times_us" in r
    }
    reference = right.pop(REFERENCE, None)
    best = min(right, key=lambda n: median(right[n]), default="")
    ratios: dict[str, float] = {}
    if reference is not None:
        ratios = {n: median(paired_ratios(reference, times)) for n, times in right.items()}
    return Line(
        problem,
        None if reference is None else median(reference),
        choice,
        ratios.get(choice),
        best,
        ratios.get(best),
        broken_systems(systems),
        result.get("refused", ""),
    )


def totals(lines: Sequence[Line]) -> list[str]:
    """Return a text for the choices, one for the best, and one for what was refused."""
    told = []
    for what, ratios in (
        ("choice", [ln.choice_ratio for ln in lines if ln.choice_ratio is not None]),
        ("best", [ln.best_ratio for ln in lines if ln.best_ratio is not None]),
    ):
        if ratios:
            text = ratios_text(ratios, LIMIT)
            told.append(f"{what} over cuBLAS at {len(ratios)} problems: {text}")
    if refused := sum(bool(ln.refused) for ln in lines):
        told.append(f"refused: {refused} of {len(lines)} problems")
    return told or ["nothing was measured"]


def table(lines: Sequence[Line], title: str) -> Table:
    """Return the lines for a terminal."""
    head = ("M, N, K", "", "rows A, B, D", "cuBLAS µs", "TFLOP/s", "choice", "ratio", "best")
    made = Table(*head, "ratio", title=title, title_justify="left")
    for at in (3, 4, 6, 8):
        made.columns[at].justify = "right"
    for ln in lines:
        p, us = ln.problem, ln.cublas_us
        made.add_row(
            f"{p.m}, {p.n}, {p.k}",
            p.layout.upper(),
            ", ".join(map(str, p.rows)),
            "–" if us is None else f"{us:.1f}",
            "–" if us is None else f"{p.tflops(us):.0f}",
            "refused" if ln.refused else ln.choice,
            _ratio(ln.choice_ratio),
            "the choice" if ln.best == ln.choice != "" else ln.best or "–",
            _ratio(ln.best_ratio),
        )
    return made


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
