"""What the cost model would have chosen where drawn problems were measured; needs no GPU.

``python -m wsched.bench.drawn.judge FILE...`` reads files of ``wsched bench random --json`` and
compares the measured schedules with what the model, as it is now, predicts of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

from wsched.bench.drawn.problems import Drawn
from wsched.bench.method.appended import lines
from wsched.bench.method.correlation import rank_correlation
from wsched.bench.method.statistic import geometric_mean
from wsched.bench.peers.systems import REFERENCE
from wsched.choose.learned.order import predicted
from wsched.choose.problem import Problem, row_alignment
from wsched.choose.tuned.entry import problem_from_dict
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Verdict", "judge", "of_all", "planned", "summary", "verdict_of"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The model at a problem.

    Args:
        problem: which.
        choice: the measured schedule with the least prediction.
        ratio: time of the fastest schedule over its.
        over_cublas: time of cuBLAS over its; None where that was not measured.
        rank: rank correlation of predictions and times.
        bias: predictions over times, their median.
    """

    problem: str
    choice: str
    ratio: float
    over_cublas: float | None
    rank: float | None
    bias: float

    def __str__(self) -> str:
        rank = "–" if self.rank is None else f"{self.rank:.2f}"
        cublas = "–" if self.over_cublas is None else f"{self.over_cublas:.3f}"
        return (
            f"{self.problem:24} choice {self.ratio:.3f} of the best, {cublas} of cuBLAS, rank "
            f"{rank}, predicted / measured {self.bias:.2f}, {self.choice}"
        )


def judge(path: Path) -> list[Verdict]:
    """The verdict of each problem of a file at which two schedules or more were measured."""
    found = (verdict_of(line["problem"], line["result"]) for line in of_all(path))
    return [verdict for verdict in found if verdict]


def of_all(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file's problems with all their schedules: not those of further processes,
    which measure the fastest again.
    """
    return (line for line in lines(path) if "problem" in line and not line.get("process"))


def verdict_of(name: str, result: dict[str, Any]) -> Verdict | None:
    """The verdict of a result of ``worker.measure_drawn``, by the times of its first stage;
    what was found wrong, be it after timing, is left out.
    """
    right = {n: r for n, r in result["systems"].items() if r["status"] == "ok"}
    times = {n: r["first_us"] for n, r in right.items() if "first_us" in r}
    cublas = times.pop(REFERENCE, None)
    if len(times) < 2:
        return None
    problem = planned(name, result)
    all_params = {n: MatmulParams.from_dict(right[n]["params"]) for n in times}
    expected = {n: predicted(problem, params).us for n, params in all_params.items()}
    choice = min(expected, key=expected.__getitem__)
    return Verdict(
        name,
        choice,
        min(times.values()) / times[choice],
        None if cublas is None else cublas / times[choice],
        rank_correlation([expected[n] for n in times], list(times.values())),
        exp(median(log(expected[n] / us) for n, us in times.items())),
    )


def planned(name: str, result: dict[str, Any]) -> Problem:
    """What was planned for; files from before alignment was part of it lack that."""
    problem, (sizes, layout) = problem_from_dict(result["problem"]), name.split()
    m, n, k = map(int, sizes.split("x"))
    rows = Drawn(m, n, k, layout).rows
    return replace(problem, align_a=row_alignment(rows[0]), align_b=row_alignment(rows[1]))


def summary(verdicts: Sequence[Verdict]) -> str:
    """All of them in a line."""
    ratios = [v.ratio for v in verdicts]
    ranks = [v.rank for v in verdicts if v.rank is not None]
    return (
        f"{len(ratios)} problems: choice over the best {geometric_mean(ratios):.3f}, least "
        f"{min(ratios):.3f}, {sum(r < 0.97 for r in ratios)} below 0.97, rank correlation "
        f"{median(ranks):.2f}"
    )


def main(paths: Iterable[str]) -> None:
    """Print the verdicts of files, and what they come to."""
    found = [v for path in paths for v in judge(Path(path))]
    for verdict in found:
        print(verdict)
    if found:
        print(summary(found))


if __name__ == "__main__":
    main(sys.argv[1:])
