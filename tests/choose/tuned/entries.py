"""Problems and entries of tables, for tests; as a module a process that writes some."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from tests.schedules import SCHEDULES
from wsched.choose.problem import Problem
from wsched.choose.tuned.entry import Entry
from wsched.choose.tuned.table import add_entries
from wsched.fusion import DataType

__all__ = ["PROBLEM", "entry", "problem"]

BF16 = DataType.BFloat16


def problem(m: int = 512, n: int = 4096, k: int = 1024) -> Problem:
    return Problem(m, n, k, BF16, (BF16,), 132)


PROBLEM = problem()


def entry(
    of: Problem = PROBLEM, name: str = "coop_traversal", day: int = 1, us: float = 9.5
) -> Entry:
    """A schedule as the winner, none of the heuristic's, on a day of November."""
    date = f"2026-11-{day:02}T09:00:00+00:00"
    return Entry(of, SCHEDULES[name], us, 10.25, "0.1.0", date)


def main() -> None:
    """Write so many entries, one after the other; M begins at the number of the process."""
    path, number, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    made = entry()
    for i in range(count):
        sized = replace(made.problem, m=64 * (count * number + i + 1))
        add_entries(path, [replace(made, problem=sized, us=float(number + 1))])


if __name__ == "__main__":
    main()
