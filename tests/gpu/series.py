"""Many cases by number, in several processes: what came of each is a row of JSON.

A row begins with the case's number. Rows may be kept in a file, from which a later run goes on. A
process that ends in the middle of a case (a kernel that hangs, a device that is lost) is replaced,
and the case is one that went wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from time import perf_counter
from typing import Any, TypeVar

from tests.gpu.watchdog import watchdog

__all__ = ["LOST", "Outcome", "Row", "Series", "counted", "options_of"]

Row = list[Any]
"""What came of a case, its number first."""

LOST = 4
"""Exit status of a process whose device is lost; another one goes on behind its last row."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case; the values of one that says more are JSON's, too.

    Args:
        seed: of the case, its number.
        route: the way it went; empty if it failed.
        wrong: what is wrong; empty if the results are right.
    """

    seed: int
    route: str
    wrong: str

    @property
    def way(self) -> str:
        """What a line of WRONG says of the case besides."""
        return self.route or "no route"


AnOutcome = TypeVar("AnOutcome", bound=Outcome)


def options_of(what: str | None, cases: str, count: int, largest: int) -> argparse.ArgumentParser:
    """The options that all series have.

    Args:
        what: the command does.
        cases: what they are called.
        count: of them, unless told.
        largest: most elements of a dimension, unless told.
    """
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--count", type=int, default=count, help=cases)
    parser.add_argument("--seed", type=int, default=0, help="which series of them")
    parser.add_argument("--seconds", type=float, default=400, help="stop after this time")
    parser.add_argument("--hang", type=float, default=60, help="seconds that one may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--device", default="cuda", help="cpu: the machine, with small sizes")
    parser.add_argument("--largest", type=int, default=largest, help="most elements of a dimension")
    parser.add_argument("--only", type=int, help="the number after `seed` in a line of WRONG")
    parser.add_argument("--results", type=Path, help="file that keeps rows, and is gone on from")
    parser.add_argument("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    return parser


def counted(outcomes: Sequence[Outcome], wanted: int, cases: str, seconds: float) -> str:
    """``2000 of 2000 fusions in 200 s, none wrong: wsched 1500 (75.0 %), nvfuser ...``."""
    routes = Counter(o.route or "failed" for o in outcomes)
    bad = sum(bool(o.wrong) for o in outcomes)
    total = max(len(outcomes), 1)
    each = ", ".join(f"{r} {n} ({100 * n / total:.1f} %)" for r, n in routes.most_common())
    verdict = f"{bad} WRONG" if bad else "none wrong"
    return f"{len(outcomes)} of {wanted} {cases} in {seconds:.0f} s, {verdict}: {each}"


def _device_lives() -> bool:
    """Whether the context of torch's CUDA device, if there is one, has survived."""
    import torch

    if not torch.cuda.is_available():
        return True
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


@dataclass
class Series:
    """A run of them.

    Args:
        module: whose ``main`` takes ``arguments`` and ``--worker N``, and calls :meth:`main`.
        arguments: of the command line.
        options: the same, parsed.
    """

    module: str
    arguments: Sequence[str]
    options: argparse.Namespace
    rows: list[Row] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def numbers(self) -> list[int]:
        """Of all cases."""
        first = 1_000_000 * (self.options.seed + 1)
        return list(range(first, first + self.options.count))

    def main(
        self,
        run: Callable[[int], AnOutcome],
        outcome: Callable[..., AnOutcome],
        summary: Callable[[list[AnOutcome], int, float], str],
    ) -> int:
        """What the command does: all cases, one of them, or a process's share.

        Args:
            run: a case, from its number.
            outcome: from the values of a row.
            summary: of outcomes, of how many that were wanted, in so many seconds.

        Returns:
            The exit status, 1 if a case was wrong or not all of them ran.
        """
        options = self.options
        if options.worker >= 0:
            return self.work(lambda seed: list(astuple(run(seed))))
        if options.only is not None:
            print(run(options.only))
            return 0
        begin = perf_counter()
        outcomes = [outcome(*row) for row in self.run()]
        for o in outcomes:
            if o.wrong:
                print(f"WRONG seed {o.seed} by {o.way}: {o.wrong}")
        print(summary(outcomes, options.count, perf_counter() - begin))
        return 1 if len(outcomes) < options.count or any(o.wrong for o in outcomes) else 0

    def run(self) -> list[Row]:
        """All processes; the rows, those of the file first."""
        begin = perf_counter()
        with TemporaryDirectory() as folder:
            self.options.results = self.options.results or Path(folder, "rows.jsonl")
            self.rows = self._kept()
            with ThreadPoolExecutor(self.options.jobs) as pool:
                list(pool.map(lambda n: self._watch(n, begin), range(self.options.jobs)))
        return self.rows

    def work(self, run: Callable[[int], Row]) -> int:
        """One process: every ``jobs``-th case that is left. Ends where the device is lost."""
        import torch

        torch.set_num_threads(1)
        begin, done = perf_counter(), {row[0] for row in self._kept()}
        for number in self.numbers()[self.options.worker :: self.options.jobs]:
            if perf_counter() - begin > self.options.seconds:
                break
            if number in done:
                continue
            print(json.dumps([number]), flush=True)
            with watchdog(self.options.hang, f"seed {number}"):
                row = run(number)
            print(json.dumps(row), flush=True)
            if not _device_lives():
                return LOST
        return 0

    def _kept(self) -> list[Row]:
        path, wanted = self.options.results, set(self.numbers())
        if path is None or not path.exists():
            return []
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [row for row in rows if row[0] in wanted]

    def _watch(self, worker: int, begin: float) -> None:
        """A process, and another one in its place where it ends too early."""
        fixed = ["--worker", str(worker), "--results", str(self.options.results)]
        while (left := self.options.seconds - (perf_counter() - begin)) > 0:
            told = [*self.arguments, *fixed, "--seconds", str(left)]
            command, open_ = [sys.executable, "-m", self.module, *told], -1
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                for line in process.stdout or ():
                    if line.startswith("["):
                        row = json.loads(line)
                        open_ = row[0] if len(row) == 1 else -1
                        self._keep(row)
            if process.returncode == 0:
                break
            if open_ >= 0:
                self._keep([open_, "", "its process ended"])
            elif process.returncode != LOST:  # it has said why
                raise RuntimeError(f"{self.module} ended with {process.returncode}")

    def _keep(self, row: Row) -> None:
        """A row; one of a case that has only begun is none."""
        if len(row) > 1 and self.options.results is not None:
            with self._lock, self.options.results.open("a") as file:
                self.rows.append(row)
                file.write(json.dumps(row) + "\n")
