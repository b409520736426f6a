"""``pytest --reaches=DIR``: which lines of the tree each test runs, for ``tools/mutate.py``.

Python tells each line once for each test (PEP 669, Python 3.12). Each process writes a file of its
own, ``DIR/PID.jsonl``, an object a line: ``{"test": node id, "seconds": CPU time with that of
children, "lines": {file: bits}}``, where bit n of the hexadecimal number says that line n ran. What
runs while modules are imported belongs to no test, nor does what other processes run that tests
start; what a fixture of a module runs belongs to the first test that uses it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from pathlib import Path
from types import CodeType
from typing import Any, TextIO

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lowering", "passes", "wsched")

COVERAGE = 1
"""``sys.monitoring.COVERAGE_ID``."""

Lines = dict[str, str]
"""Files, relative to the tree; of each the lines as bits of a hexadecimal number."""


class Reaches:
    """Lines of a tree that run, each told once between two calls of :meth:`take`.

    Args:
        root: of the tree.
        packages: folders of it that are looked at.
        tool: whose events they are to Python; each listens for itself.
    """

    def __init__(
        self, root: Path = ROOT, packages: tuple[str, ...] = PACKAGES, tool: int = COVERAGE
    ) -> None:
        self._tool, self._root = tool, f"{root}/"
        self._inside = tuple(f"{root}/{p}/" for p in packages)
        self._seen: set[tuple[str, int]] = set()

    def start(self) -> None:
        """Listen; needs Python 3.12."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        monitoring.use_tool_id(self._tool, "reaches")
        monitoring.register_callback(self._tool, monitoring.events.LINE, self._ran)
        self._disable, self._restart = monitoring.DISABLE, monitoring.restart_events
        monitoring.set_events(self._tool, monitoring.events.LINE)

    def stop(self) -> None:
        """Listen no more."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        monitoring.set_events(self._tool, 0)
        monitoring.free_tool_id(self._tool)

    def take(self) -> Lines:
        """What has run since it was asked last; from now on each line is told again."""
        found: dict[str, int] = {}
        for file, line in self._seen:
            name = file.removeprefix(self._root)
            found[name] = found.get(name, 0) | 1 << line
        self._seen.clear()
        self._restart()
        return {name: f"{found[name]:x}" for name in sorted(found)}

    def _ran(self, code: CodeType, line: int) -> Any:
        if code.co_filename.startswith(self._inside):
            self._seen.add((code.co_filename, line))
        return self._disable


# --- within pytest -------------------------------------------------------------------------------

REACHES = pytest.StashKey[tuple[Reaches, TextIO]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reaches", metavar="DIR", help="write the lines that each test runs")


def pytest_configure(config: pytest.Config) -> None:
    if not (folder := config.getoption("--reaches")):
        return
    if sys.version_info < (3, 12):
        raise pytest.UsageError("--reaches needs Python 3.12")
    Path(folder).mkdir(parents=True, exist_ok=True)
    reaches = Reaches()
    file = (Path(folder) / f"{os.getpid()}.jsonl").open("w", encoding="utf-8")
    config.stash[REACHES] = reaches, file
    reaches.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    if REACHES not in item.config.stash:
        return (yield)
    reaches, file = item.config.stash[REACHES]
    reaches.take()
    begin = os.times()
    result = yield
    seconds = sum(os.times()[:4]) - sum(begin[:4])
    row = {"test": item.nodeid, "seconds": round(seconds, 3), "lines": reaches.take()}
    file.write(json.dumps(row) + "\n")
    return result


def pytest_unconfigure(config: pytest.Config) -> None:
    if REACHES in config.stash:
        reaches, file = config.stash[REACHES]
        reaches.stop()
        file.close()
