"""What was measured of drawn problems comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.table import Table

from wsched.bench.drawn.problems import Drawn
from wsched.bench.gemm.results import broken_systems
from wsched.bench.method.statistic import geometric_mean, paired_ratios, ratios_text
from wsched.bench.peers.systems import REFERENCE

__all__ = ["LIMIT", "NEAR", "SCHEMA", "Line", "again", "line_of", "table", "totals"]

SCHEMA = "wsched.bench.random/1"

LIMIT = 0.95
"""A ratio to cuBLAS below it is counted."""

NEAR = 0.97
"""A choice with so much of the fastest one's speed counts as near it."""

_Times = Sequence[Sequence[float]]
"""Of a system, the rounds of each process."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a problem's measurement comes to.

    Args:
        problem: which.
        cublas_us: time of cuBLAS; None where it failed.
        choice: name of what wsched takes.
        choice_ratio: cuBLAS's time over its, the median of the rounds, and of the processes; None
            where either failed.
        best: name of the fastest schedule; empty where none was right.
        best_ratio: as ``choice_ratio``, of that.
        of_best: the fastest schedule's time over the choice's, likewise; None where that failed.
        schedules: how many ran, and were right.
        broken: systems that failed or were wrong, with the reason.
        refused: why wsched has no kernel; empty if it has one.
    """

    problem: Drawn
    cublas_us: float | None
    choice: str
    choice_ratio: float | None
    best: str
    best_ratio: float | None
    of_best: float | None
    schedules: int
    broken: dict[str, str]
    refused: str = ""


def again(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The schedules that further processes measure: of those in the second stage what they are,
    what is taken in front.
    """
    found = {n: r for n, r in result["systems"].items() if "times_us" in r and n != REFERENCE}
    order = sorted(found, key=lambda name: name != result["choice"])
    return {n: {k: found[n][k] for k in ("params", "predicted_us")} for n in order}


def line_of(problem: Drawn, results: Sequence[dict[str, Any]]) -> Line:
    """Return the line of a problem.

    Args:
        problem: which.
        results: of ``worker.measure_drawn``, of each process.
    """
    first, broken, rounds = results[0], dict[str, str](), dict[str, list[list[float]]]()
    for result in results:
        broken |= broken_systems(result["systems"])
        for n, r in result["systems"].items():
            if r["status"] == "ok" and "times_us" in r:
                rounds.setdefault(n, []).append(r["times_us"])
    right = {n: t for n, t in rounds.items() if len(t) == len(results) and n not in broken}
    reference, choice = right.pop(REFERENCE, None), first["choice"]
    over = {} if reference is None else {n: _ratio_of(reference, t) for n, t in right.items()}
    taken = right.get(choice, reference)
    if taken is not None:
        best = max(right, key=lambda n: _ratio_of(taken, right[n]), default="")
    else:
        best = min(right, key=lambda n: median(map(median, right[n])), default="")
    return Line(
        problem,
        None if reference is None else median(map(median, reference)),
        choice,
        over.get(choice),
        best,
        over.get(best),
        1 / _ratio_of(right[choice], right[best]) if choice in right else None,
        len(right),
        broken,
        first.get("refused", ""),
    )


def _ratio_of(reference: _Times, times: _Times) -> float:
    """How much faster than the reference: the median of each process, and of these."""
    return median(median(paired_ratios(*r)) for r in zip(reference, times, strict=True))


def totals(lines: Sequence[Line]) -> list[str]:
    """Return a text for the choices, one for the best, one for those beside these where anything
    else was measured, and one for what was refused.
    """
    told = []
    for what, ratios in (
        ("choice", [ln.choice_ratio for ln in lines if ln.choice_ratio is not None]),
        ("best", [ln.best_ratio for ln in lines if ln.best_ratio is not None]),
    ):
        if ratios:
            text = ratios_text(ratios, LIMIT)
            told.append(f"{what} over cuBLAS at {len(ratios)} problems: {text}")
    of_best = [ln.of_best for ln in lines if ln.of_best is not None]
    if of_best and any(ln.schedules > 1 for ln in lines):
        near = sum(ratio >= NEAR for ratio in of_best)
        mean = f"geometric mean {geometric_mean(of_best):.3f}, least {min(of_best):.3f}"
        told.append(f"choice over the best: {mean}, {near} of {len(of_best)} at {NEAR:g} or above")
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
