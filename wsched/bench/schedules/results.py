"""From the raw times of ``wsched bench schedules`` to how good the heuristic's choices are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from lowering.ground.errors import UnsupportedError
from wsched.bench.gemm.results import BAD
from wsched.bench.method.correlation import rank_correlation
from wsched.bench.method.statistic import Spread, geometric_mean, paired_ratios

__all__ = ["LIMIT", "SCHEMA", "Row", "Totals", "notes", "read", "rows_of", "table", "to_json"]

SCHEMA = "wsched.bench.schedules/1"

LIMIT = 0.97
"""A choice below it is counted as a bad one."""


@dataclass(frozen=True, slots=True)
class Row:
    """The choice at a shape, and the best.

    Args:
        shape: as text.
        schedules: how many were measured.
        choice: name of the heuristic's choice.
        predicted_us: what it predicted for it.
        choice_us: median of the second stage; None where the choice failed.
        best: name of the schedule that was fastest in the second stage; empty if none ended well.
        best_us: its median.
        best_rank: its place in the ranking, from 1.
        ratio: time of the best over that of the choice, of the same rounds.
        correlation: of predicted and measured times of the first stage, by ranks.
        left_out: schedule -> (status, reason).
    """

    shape: str
    schedules: int
    choice: str
    predicted_us: float | None
    choice_us: float | None
    best: str
    best_us: float | None
    best_rank: int | None
    ratio: Spread | None
    correlation: float | None
    left_out: dict[str, tuple[str, str]]

    @property
    def broken(self) -> bool:
        """Whether a schedule failed or is wrong."""
        return any(status in BAD for status, _ in self.left_out.values())


@dataclass(frozen=True, slots=True)
class Totals:
    """All shapes where the choice could be measured.

    Args:
        shapes: how many.
        minimum: smallest ratio; None without shapes, as all that follow.
        mean: geometric mean of the ratios.
        below: shapes with a ratio below :data:`LIMIT`.
        correlation: median of the rank correlations.
    """

    shapes: int
    minimum: float | None
    mean: float | None
    below: int
    correlation: float | None

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Totals:
        """Return what the rows come to."""
        ratios = [row.ratio.median for row in rows if row.ratio is not None]
        found = [row.correlation for row in rows if row.correlation is not None]
        return cls(
            len(ratios),
            min(ratios, default=None),
            geometric_mean(ratios) if ratios else None,
            sum(ratio < LIMIT for ratio in ratios),
            median(found) if found else None,
        )

    def __str__(self) -> str:
        if self.minimum is None or self.mean is None:
            return "no choice was measured"
        rank = "–" if self.correlation is None else f"{self.correlation:.2f}"
        return (
            f"{self.shapes} shapes: best/choice at least {self.minimum:.3f}, geometric mean "
            f"{self.mean:.3f}, {self.below} below {LIMIT:g}; median rank correlation {rank}"
        )


def rows_of(shapes: Mapping[str, dict[str, Any]]) -> list[Row]:
    """Return a row for each result of ``schedules_worker.measure_ranking``, by shape."""
    return [_row(shape, result) for shape, result in shapes.items()]


def _row(shape: str, result: dict[str, Any]) -> Row:
    systems, choice = result["systems"], result["choice"]
    right = {n: r for n, r in systems.items() if r["status"] == "ok"}
    us = {n: median(r["times_us"]) for n, r in right.items() if "times_us" in r}
    best = min(us, key=us.__getitem__, default="")
    first = [r for r in right.values() if "first_us" in r]
    ratio = None
    if choice in us:
        ratios = paired_ratios(right[best]["times_us"], right[choice]["times_us"])
        ratio = Spread.of(ratios)
    return Row(
        shape=shape,
        schedules=len(first),
        choice=choice,
        predicted_us=systems.get(choice, {}).get("predicted_us"),
        choice_us=us.get(choice),
        best=best,
        best_us=us.get(best),
        best_rank=right[best]["rank"] if best else None,
        ratio=ratio,
        correlation=rank_correlation(
            [r["predicted_us"] for r in first], [r["first_us"] for r in first]
        ),
        left_out={n: (r["status"], r["reason"]) for n, r in systems.items() if n not in right},
    )


def table(rows: Sequence[Row], title: str) -> Table:
    """Return the rows for a terminal."""
    head = ("M, N, K", "schedules", "choice", "predicted µs", "measured µs", "best", "rank", "µs")
    made = Table(*head, "best/choice", "correlation", title=title, title_justify="left")
    for at in (1, 3, 4, 6, 7, 8, 9):
        made.columns[at].justify = "right"
    for row in rows:
        same = row.best == row.choice
        made.add_row(
            row.shape.replace("x", ", "),
            str(row.schedules),
            row.choice,
            _number(row.predicted_us, 1),
            _number(row.choice_us, 1),
            "the choice" if same else row.best or "–",
            "–" if row.best_rank is None else str(row.best_rank),
            _number(row.best_us, 1),
            _number(None if row.ratio is None else row.ratio.median, 3),
            _number(row.correlation, 2),
        )
    return made


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def notes(rows: Sequence[Row]) -> list[str]:
    """Return a line for each schedule and reason that it was left out for, with its shapes."""
    at: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for name, (status, reason) in row.left_out.items():
            at.setdefault((name, status, reason), []).append(row.shape)
    return [
        f"{name} {status} at {', '.join(shapes)}: {reason}"
        for (name, status, reason), shapes in at.items()
    ]


def to_json(
    command: dict[str, Any],
    method: str,
    environment: dict[str, Any],
    shapes: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    """Return everything that was measured; ``environment`` is that of the first run."""
    rows = rows_of(shapes)
    return {
        "schema": SCHEMA,
        "method": method,
        "command": command,
        "environment": environment,
        "shapes": dict(shapes),
        "summary": {"shapes": [asdict(row) for row in rows], "all": asdict(Totals.of(rows))},
    }


def read(path: Path, command: dict[str, Any]) -> dict[str, Any]:
    """Return what an earlier run of the same command wrote; ``{}`` if there is no such file.

    Raises:
        UnsupportedError: a file of something else, or of a run that measured otherwise.
    """
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_text())
        schema = data.get("schema")
    except (OSError, ValueError, AttributeError) as error:
        raise UnsupportedError(
            f"--json {path} ({error})", "a file of `wsched bench schedules`, or none"
        ) from error
    if schema != SCHEMA:
        raise UnsupportedError(f"--json {path} with schema {schema!r}", SCHEMA)
    if data["command"] != command:
        before = json.dumps(data["command"])
        raise UnsupportedError(
            f"--json {path} of a run with other options ({before})", json.dumps(command)
        )
    found: dict[str, Any] = data
    return found
