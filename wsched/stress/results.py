"""What came of the kernels of a run: lines of JSON, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.bench.method.appended import lines, other_options

__all__ = ["SCHEMA", "Failure", "Row", "read_rows", "summary"]

SCHEMA = "wsched-stress-1"


@dataclass(frozen=True, slots=True)
class Failure:
    """A launch that went wrong.

    Args:
        launch: its number; -1 where nobody knows which it was.
        sizes: of it.
        wrong: what is wrong.
    """

    launch: int
    sizes: str
    wrong: str


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel.

    Args:
        kernel: its number.
        name: of it; empty if it was not made.
        launches: that were judged.
        refused: launches on tensors that it does not take.
        seconds: of its launches.
        failures: those that went wrong.
        unmade: why it was not made.
        form: what it computes, by family; empty if it was not made.
        untaken: the first launch that was refused, and why; None if none was.
    """

    kernel: int
    name: str
    launches: int
    refused: int
    seconds: float
    failures: tuple[Failure, ...]
    unmade: str = ""
    form: str = ""
    untaken: tuple[int, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Row:
        """From what JSON had."""
        failures = tuple(Failure(**f) for f in found["failures"])
        untaken = found.get("untaken")
        return Row(**found | {"failures": failures, "untaken": untaken and tuple(untaken)})


def read_rows(path: Path, command: dict[str, Any]) -> list[Row]:
    """The rows of a file; none if there is no such file.

    Raises:
        UnsupportedError: a file of something else, or of a run of other kernels.
    """
    if not path.exists():
        return []
    head, *found = [*lines(path)] or [{}]
    if head.get("schema") != SCHEMA:
        raise UnsupportedError(f"--json {path} without the schema {SCHEMA}", "a file of this run")
    if head["command"] != command:
        raise other_options(path, head["command"], command)
    return [Row.from_dict(line) for line in found if "kernel" in line]


def summary(found: Sequence[Row], seconds: float) -> str:
    """``20000 launches of 80 kernels in 40 s, 500 a second, none wrong``; what was refused."""
    launches = sum(r.launches for r in found)
    kernels = sum(bool(r.name) for r in found)
    wrong = sum(len(r.failures) for r in found)
    rate = launches / seconds if seconds else 0.0
    told = [
        f"{launches} launches of {kernels} kernels in {seconds:.0f} s, {rate:.0f} a second",
        f"{wrong} WRONG" if wrong else "none wrong",
    ]
    if refused := sum(r.refused for r in found):
        told.append(f"{refused} refused")
    if unmade := sum(bool(r.unmade) for r in found):
        told.append(f"{unmade} kernels unmade")
    return ", ".join(told)
