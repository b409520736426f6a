"""Results in a file that is only appended to, so that a later run goes on where one ended."""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lowering.ground.errors import UnsupportedError

__all__ = ["Keep", "append", "lines", "other_options", "read"]


def append(path: Path, line: dict[str, Any]) -> None:
    """Add a line to a file, behind whatever it has; the line is on the disk when this returns."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a process died while it wrote
                file.write(b"\n")
        file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """A file's lines; those that cannot be read, of a process that died, are passed over. What ends
    with .xz is unpacked.
    """
    read = lzma.open if path.suffix == ".xz" else open
    with read(path, "rt", encoding="utf-8", errors="replace") as file:
        found = file.read()
    for text in found.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line


def other_options(path: Path, before: dict[str, Any], command: dict[str, Any]) -> UnsupportedError:
    """What is wrong with a file of a run that was asked for something else."""
    return UnsupportedError(
        f"--json {path} of a run with other options ({json.dumps(before)})", json.dumps(command)
    )


def read(
    path: Path, schema: str, command: dict[str, Any], process: int | None = None
) -> dict[str, dict[str, Any]]:
    """Return a file's results by problem, the last of each; none if there is no such file.

    Args:
        path: of the file.
        schema: of what is in it.
        command: of the run that goes on with it.
        process: whose results, where problems are measured by several, by its number; lines that do
            not say are of the first, 0. None for those of any.

    Raises:
        UnsupportedError: a file of something else, or of a run that measured otherwise.
    """
    found: dict[str, dict[str, Any]] = {}
    if not path.exists():
        return found
    before: dict[str, Any] | None = None
    for line in lines(path):
        if line.get("schema") == schema:
            before = line["command"]
        elif before is not None and "problem" in line and process in (None, line.get("process", 0)):
            found[line["problem"]] = line["result"]
    if before is None:
        raise UnsupportedError(f"--json {path} without the schema {schema}", "a file of this bench")
    if before != command:
        raise other_options(path, before, command)
    return found


class Keep:
    """Takes results: into a dict, and as lines into a file, behind a head with the environment.

    Args:
        path: of the file; None for none.
        head: ``schema``, ``command``, which decides whether a later run may go on with the file,
            and ``method``.
        found: the dict.
        beside: what each line has in front of problem and result.
    """

    def __init__(
        self,
        path: Path | None,
        head: dict[str, Any],
        found: dict[str, dict[str, Any]],
        **beside: Any,
    ) -> None:
        self._path, self._head, self._found, self._beside = path, head, found, beside
        self._begun = False

    def __call__(self, environment: dict[str, Any], shapes: dict[str, dict[str, Any]]) -> None:
        """Keep results that are new; they are told again in the end, with what hung."""
        for problem, result in shapes.items():
            if self._found.get(problem) == result:
                continue
            self._found[problem] = result
            if self._path is None:
                continue
            if not self._begun:
                append(self._path, self._head | {"environment": environment})
                self._begun = True
            append(self._path, {**self._beside, "problem": problem, "result": result})
