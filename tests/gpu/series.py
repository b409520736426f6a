"""Many cases by number, in several processes: what came of each is a row of JSON.

A row begins with the case's number. Rows may be kept in a file, from which a later run goes on. A
process that ends in the middle of a case (a kernel that hangs, a device that is lost) is replaced,
and the case has the row that the caller says.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from time import perf_counter
from typing import Any

from tests.gpu.watchdog import watchdog

__all__ = ["LOST", "Row", "Series", "device_lives", "options_of"]

Row = list[Any]
"""What came of a case, its number first."""

LOST = 4
"""Exit status of a process whose device is lost; another one goes on behind its last row."""


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


def device_lives() -> bool:
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
        module: whose ``main`` takes ``arguments`` and ``--worker N``, and calls :meth:`work`.
        arguments: of the command line.
        options: the same, parsed.
        ended: the row of a case whose process ended, from its number.
    """

    module: str
    arguments: Sequence[str]
    options: argparse.Namespace
    ended: Callable[[int], Row]
    rows: list[Row] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def numbers(self) -> list[int]:
        """Of all cases."""
        first = 1_000_000 * (self.options.seed + 1)
        return list(range(first, first + self.options.count))

    def run(self) -> list[Row]:
        """All processes; the rows, those of the file first."""
        begin = perf_counter()
        with TemporaryDirectory() as folder:
            self.options.results = self.options.results or Path(folder, "rows.jsonl")
            self.rows = self._kept()
            with ThreadPoolExecutor(self.options.jobs) as pool:
                list(pool.map(lambda n: self._watch(n, begin), range(self.options.jobs)))
        return self.rows

    def work(self, run: Callable[[int], Row], alive: Callable[[], bool]) -> int:
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
            if not alive():
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
                self._keep(self.ended(open_))
            elif process.returncode != LOST:  # it has said why
                raise RuntimeError(f"{self.module} ended with {process.returncode}")

    def _keep(self, row: Row) -> None:
        """A row; one of a case that has only begun is none."""
        if len(row) > 1 and self.options.results is not None:
            with self._lock, self.options.results.open("a") as file:
                self.rows.append(row)
                file.write(json.dumps(row) + "\n")
