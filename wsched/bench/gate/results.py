"""Files of the gate: a line for each problem of each process, only ever appended to.

A run and a baseline are the same thing: a file of one commit is the baseline of the next ones.
Those that wsched ships stand in ``baselines``, one for each GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.bench.gemm.results import broken_systems
from wsched.bench.method.appended import lines
from wsched.bench.method.statistic import paired_ratios
from wsched.bench.peers.systems import REFERENCE

__all__ = ["BASELINES", "SCHEMA", "Measured", "baseline_of", "read"]

SCHEMA = "wsched.bench.gate/1"

BASELINES = Path(__file__).parent / "baselines"
"""The folder of those that are shipped."""

Results = dict[int, dict[str, dict[str, Any]]]


@dataclass(slots=True)
class Measured:
    """What a file has.

    Args:
        command: what decides whether a later run may go on with the file; empty of no file.
        environment: of its first process.
        processes: number of the process -> problem -> result of the worker.
    """

    command: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    processes: Results = field(default_factory=dict)

    @property
    def gpu(self) -> dict[str, Any]:
        """The GPU; empty if nothing was measured."""
        found: dict[str, Any] = self.environment.get("gpu", {})
        return found

    def complete(self, problems: tuple[str, ...]) -> list[int]:
        """Numbers of the processes that measured all problems."""
        return [
            n for n, found in sorted(self.processes.items()) if all(p in found for p in problems)
        ]

    def ratios(self, problems: tuple[str, ...]) -> dict[str, list[float]]:
        """CuBLAS's time over wsched's in each complete process; without the problems of which one
        lacks it.
        """
        which = self.complete(problems)
        found = {p: [_ratio(self.processes[n][p]) for n in which] for p in problems}
        return {p: [r for r in rs if r] for p, rs in found.items() if rs and all(rs)}

    def broken(self) -> dict[str, str]:
        """What failed or was wrong, with the reason: system and problem -> reason."""
        return {
            f"{name} at {problem}": reason
            for found in self.processes.values()
            for problem, result in found.items()
            for name, reason in broken_systems(result["systems"]).items()
        }

    def refused(self) -> dict[str, str]:
        """Problems that wsched has no kernel for, with the reason."""
        every = ((p, r) for found in self.processes.values() for p, r in found.items())
        return {p: r["refused"] for p, r in every if r.get("refused")}


def _ratio(result: dict[str, Any]) -> float:
    """The median over the rounds; 0 where one of both was not measured."""
    systems, choice = result["systems"], result["choice"]
    ok = [systems.get(name, {}) for name in (REFERENCE, choice)]
    if any(r.get("status") != "ok" for r in ok):
        return 0.0
    return median(paired_ratios(ok[0]["times_us"], ok[1]["times_us"]))


def baseline_of(gpu: str) -> Path:
    """Where the shipped baseline of a GPU stands, if there is one."""
    return BASELINES / f"{re.sub(r'[^a-z0-9]+', '-', gpu.lower()).strip('-')}.jsonl"


def read(path: Path) -> Measured:
    """Read a file, of which the last line of a problem counts; nothing if there is no such file.

    Raises:
        UnsupportedError: a file of something else, or of runs that measured differently.
    """
    found = Measured()
    if not path.exists():
        return found
    for line in lines(path):
        if line.get("schema") == SCHEMA:
            if found.command not in ({}, line["command"]):
                raise UnsupportedError(f"{path} of runs with different options", "one of them")
            found.command = line["command"]
            found.environment = found.environment or line["environment"]
        elif found.command and "problem" in line:
            found.processes.setdefault(line["process"], {})[line["problem"]] = line["result"]
    if not found.command:
        raise UnsupportedError(f"{path} without the schema {SCHEMA}", "a file of this bench")
    return found
