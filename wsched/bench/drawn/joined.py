"""What was measured of drawn problems beside what the model predicts, and where a choice is off.

``python -m wsched.bench.drawn.joined FILE...`` reads files of ``wsched bench random --json``; needs
no GPU. A problem is behind cuBLAS because the model ranks a slower schedule in front of one that
was measured faster, or because none that was measured reaches it: the table has both, by classes
that a problem with its choice belongs to. ``--csv`` prints a line for each schedule instead.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from wsched.bench.drawn.judge import of_all, planned
from wsched.bench.drawn.results import LIMIT
from wsched.bench.method.statistic import geometric_mean
from wsched.bench.peers.systems import REFERENCE
from wsched.choose.learned.order import predicted
from wsched.choose.problem import Problem
from wsched.schedule.matmul.chunks import chunk_columns
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["ClassLine", "Joined", "by_class", "classes", "joined", "write_csv"]

FEW_STEPS, MANY_STEPS, FEW_ROWS, FULL = 8, 256, 128, 0.9
"""Steps of a CTA's k loop that are few and many; rows or columns of a result that are few; share of
the places in the last round that a full one has."""

WIDE_CHUNK = 64
"""Columns of a chunk of the epilogue that is a line."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A schedule at a problem.

    Args:
        name: of the problem, which a file has once.
        problem: what was planned for.
        schedule: its name.
        params: of the schedule.
        us: measured.
        cublas_us: likewise; None where that failed.
    """

    name: str
    problem: Problem
    schedule: str
    params: MatmulParams
    us: float
    cublas_us: float | None

    @property
    def predicted_us(self) -> float:
        """By the model as it is."""
        return predicted(self.problem, self.params).us


def joined(path: Path) -> Iterator[Joined]:
    """The schedules of a file that ran and were right, in its order: of several processes those of
    the first, which had all of them.
    """
    for line in of_all(path):
        us = {n: t for n, r in line["result"]["systems"].items() if (t := _time(r)) is not None}
        cublas = us.pop(REFERENCE, None)
        for name, found in us.items():
            params = MatmulParams.from_dict(line["result"]["systems"][name]["params"])
            problem = planned(line["problem"], line["result"])
            yield Joined(line["problem"], problem, name, params, found, cublas)


def _time(score: dict[str, Any]) -> float | None:
    """Microseconds of the stage that all systems were in."""
    if score["status"] != "ok":
        return None
    times = score.get("times_us")
    return score.get("first_us") or (median(times) if times else None)


def classes(choice: Joined) -> tuple[str, ...]:
    """What a problem and what is chosen for it have in common with others."""
    p, params = choice.problem, choice.params
    found = predicted(p, params)
    steps = -(-p.steps(params.output_tile.k) // params.splitk_factor)
    full = found.tiles * params.splitk_factor >= FULL * p.sms
    told = {
        f"rows of {min(p.align_a, p.align_b)} bytes": True,
        f"waits for {found.step}": True,
        "few rows or columns": min(p.m, p.n) <= FEW_ROWS,
        "few steps": steps <= FEW_STEPS,
        "many steps": steps > MANY_STEPS,
        "K in parts": params.splitk_factor > 1,
        "one round, full": found.rounds == 1 and full,
        "one round, not full": found.rounds == 1 and not full,
        "several rounds": found.rounds > 1,
        "narrow chunks": chunk_columns(params, *p.results) < WIDE_CHUNK,
        "clusters": params.cluster_dims.m * params.cluster_dims.n > 1,
        "exchanged": params.exchange_operands,
    }
    return ("all", *(name for name, holds in told.items() if holds))


@dataclass(frozen=True, slots=True)
class ClassLine:
    """A class of problems at which several schedules and cuBLAS were measured.

    Args:
        name: of the class.
        choice: time of cuBLAS over that of the schedule with the least prediction, of each problem.
        best: the same of the fastest.
    """

    name: str
    choice: tuple[float, ...]
    best: tuple[float, ...]

    @property
    def ranked_behind(self) -> int:
        """Problems at which a measured schedule reaches cuBLAS, and the choice does not."""
        return sum(c < LIMIT <= b for c, b in zip(self.choice, self.best, strict=True))

    @property
    def out_of_reach(self) -> int:
        """Problems at which no measured one does."""
        return sum(b < LIMIT for b in self.best)

    def __str__(self) -> str:
        return (
            f"{self.name:24} {len(self.choice):4} choice {geometric_mean(self.choice):.3f} of "
            f"cuBLAS, best {geometric_mean(self.best):.3f}, below {LIMIT:g}: "
            f"{self.ranked_behind:3} by rank, {self.out_of_reach:3} out of reach"
        )


def by_class(found: Iterable[Joined]) -> list[ClassLine]:
    """The classes, the largest first."""
    ratios: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _, group in groupby(found, key=lambda j: j.name):
        all_of = list(group)
        us = all_of[0].cublas_us
        if us is None or len(all_of) == 1:
            continue
        choice = min(all_of, key=lambda j: j.predicted_us)
        for name in classes(choice):
            ratios[name].append((us / choice.us, us / min(j.us for j in all_of)))
    all_lines = [ClassLine(name, *zip(*both, strict=True)) for name, both in ratios.items()]
    return sorted(all_lines, key=lambda line: -len(line.choice))


def write_csv(found: Iterable[Joined], file: TextIO) -> None:
    """A line for each schedule: problem, schedule, microseconds measured, predicted, of cuBLAS."""
    writer = csv.writer(file)
    writer.writerow(("problem", "schedule", "us", "predicted_us", "cublas_us"))
    for j in found:
        writer.writerow((j.name, j.schedule, j.us, round(j.predicted_us, 3), j.cublas_us))


def main(words: Sequence[str]) -> None:
    """Print the classes of all files, or with ``--csv`` all that they have."""
    found = [j for word in words if word != "--csv" for j in joined(Path(word))]
    if "--csv" in words:
        write_csv(found, sys.stdout)
    else:
        for line in by_class(found):
            print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
