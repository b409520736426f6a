"""Which tests run which line of the tree: what ``pytest --reaches`` writes, made and read."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Coverage", "Reached", "git", "make_map"]

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Reached:
    """A test: its node id, how long it took, and how many lines it ran."""

    test: str
    seconds: float
    lines: int


class Coverage:
    """Which tests run a line, read from what ``pytest --reaches`` wrote.

    Args:
        folder: with its files.
    """

    def __init__(self, folder: Path) -> None:
        self._of: dict[str, list[tuple[Reached, int]]] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for text in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(text)
                lines = {name: int(bits, 16) for name, bits in row["lines"].items()}
                count = sum(bits.bit_count() for bits in lines.values())
                test = Reached(row["test"], row["seconds"], count)
                for name, bits in lines.items():
                    self._of.setdefault(name, []).append((test, bits))

    def files(self) -> list[str]:
        """Files of which tests run something."""
        return sorted(self._of)

    def lines(self, file: str) -> int:
        """The lines that tests run, as bits."""
        found = 0
        for _, bits in self._of[file]:
            found |= bits
        return found

    def tests(self, file: str, line: int) -> list[Reached]:
        """The tests that run a line, those that run least first."""
        found = [test for test, bits in self._of[file] if bits >> line & 1]
        return sorted(found, key=lambda t: (t.lines + 1000 * t.seconds, t.test))


MADE_OF = "made-of"
"""File beside those of a map: of which code it is."""


def make_map(folder: Path, tests: list[str], jobs: int) -> bool:
    """Write which test runs which line, unless it is there and of this code, or somebody else's.

    Returns:
        Whether there is one now; not if a test fails as the code is, which would kill every mutant.
    """
    told, code = folder / MADE_OF, _code()
    there = list(folder.glob("*.jsonl"))
    if there and (not told.exists() or told.read_text() == f"{code} {tests}"):
        return True
    for path in (*there, told):
        path.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "--dist", "worksteal",
        "-m", "not slow and not gpu", f"--reaches={folder.resolve()}", *tests,
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    told.write_text("unfinished")  # a map that is left so is made again
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        for path in (*folder.glob("*.jsonl"), told):
            path.unlink()
        return False
    told.write_text(f"{code} {tests}")
    return True


def _code() -> str:
    """What the lines of a map are lines of."""
    found = hashlib.sha256()
    for name in sorted(git("ls-files", "*.py").split()):
        found.update(name.encode() + b"\0" + (ROOT / name).read_bytes() + b"\0")
    return found.hexdigest()


def git(*words: str) -> str:
    """What git says of the tree."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
