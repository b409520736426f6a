"""From the times of a shortlist to the schedule that is kept, and what is shown of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table as Shown

from wsched.bench.gemm.results import BAD
from wsched.bench.method.statistic import Spread, paired_ratios
from wsched.choose.tuned.entry import Entry, problem_from_dict
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["SCHEMA", "Outcome", "notes", "outcome_of", "shown", "to_json"]

SCHEMA = "wsched.tune/1"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a shape.

    Args:
        shape: as text.
        entry: what the table has now; None if nothing ended well.
        known: whether an earlier run measured it.
        name: of the kept schedule; empty where an earlier run kept it, or there is none.
        rank: its place in the ranking, from 1.
        ratio: time of the cost model's choice over its own, of the same rounds; None without that.
        left_out: schedule -> (status, reason).
    """

    shape: str
    entry: Entry | None
    known: bool = False
    name: str = ""
    rank: int | None = None
    ratio: Spread | None = None
    left_out: tuple[tuple[str, str, str], ...] = ()

    @property
    def broken(self) -> bool:
        """Whether a schedule failed or is wrong."""
        return any(status in BAD for _, status, _ in self.left_out)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON data."""
        return {
            "shape": self.shape,
            "known": self.known,
            "schedule": self.name,
            "rank": self.rank,
            "ratio": self.ratio and self.ratio.to_dict(),
            "entry": self.entry and self.entry.to_dict(),
            "left_out": {n: {"status": s, "reason": r} for n, s, r in self.left_out},
        }


def outcome_of(shape: str, result: dict[str, Any], version: str, date: str) -> Outcome:
    """Decide for a result of ``schedules_worker.run_ranking_job``.

    The cost model's choice stays unless the lower quartile of the ratios says that another one is
    faster: what is nearer is within what repeats differ by.

    Args:
        shape: as text.
        result: of the worker; a worker that was killed leaves less in it.
        version: of wsched.
        date: now, as in :class:`Entry`.
    """
    systems, choice = result["systems"], result["choice"]
    right = {n: r for n, r in systems.items() if r["status"] == "ok" and "times_us" in r}
    left_out = tuple(
        (n, r["status"], r["reason"]) for n, r in systems.items() if r["status"] != "ok"
    )
    if not right:
        return Outcome(shape, None, left_out=left_out)
    us = {n: median(r["times_us"]) for n, r in right.items()}
    winner, ratio, choice_us = min(us, key=us.__getitem__), None, us.get(choice)
    if choice in right:
        ratios = {
            n: Spread.of(paired_ratios(right[choice]["times_us"], r["times_us"]))
            for n, r in right.items()
        }
        faster = [n for n, r in ratios.items() if r.low > 1]
        winner = max(faster, key=lambda n: ratios[n].median, default=choice)
        ratio = ratios[winner]
    entry = Entry(
        problem_from_dict(result["problem"]),
        MatmulParams.from_dict(result["finalists"][winner]),
        us[winner], choice_us, version, date,
    )  # fmt: skip
    return Outcome(
        shape, entry, name=winner, rank=right[winner]["rank"], ratio=ratio, left_out=left_out
    )


def shown(outcomes: Sequence[Outcome]) -> Shown:
    """Return the outcomes for a terminal."""
    made = Shown("M, N, K", "kept", "rank", "µs", "model's choice µs", "choice/kept")
    for at in range(2, 6):
        made.columns[at].justify = "right"
    for o in outcomes:
        kept = "none" if o.entry is None else "known" if o.known else o.name
        times = (None, None) if o.entry is None else (o.entry.us, o.entry.choice_us)
        made.add_row(
            o.shape.replace("x", ", "),
            "the model's choice" if o.rank == 1 else kept,
            "–" if o.rank is None else str(o.rank),
            *("–" if us is None else f"{us:.1f}" for us in times),
            "–" if o.ratio is None else f"{o.ratio.median:.3f}",
        )
    return made


def notes(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a line for each schedule that was left out, and each reason, with its shapes."""
    at: dict[tuple[str, str, str], list[str]] = {}
    for o in outcomes:
        for left in o.left_out:
            at.setdefault(left, []).append(o.shape)
    return [f"{n} {s} at {', '.join(shapes)}: {r}" for (n, s, r), shapes in at.items()]


def to_json(
    outcomes: Sequence[Outcome], table: Path, method: str, command: dict[str, Any], stopped: str
) -> dict[str, Any]:
    """Return everything that ``wsched tune --json`` prints."""
    return {
        "schema": SCHEMA,
        "table": str(table),
        "method": method,
        "command": command,
        "stopped": stopped,
        "shapes": [o.to_dict() for o in outcomes],
    }
