"""``pytest --raises``: the ``raise`` lines that no test has reached, at the end of a run.

A refusal that nobody has ever seen may name the wrong thing, or not be one. Python says which
instruction raises (PEP 669, Python 3.12), at the cost of exceptions alone, in each of
pytest-xdist's workers. What other processes raise that tests start is not seen.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lowering", "passes", "wsched")
BENCHES = ("wsched/bench",)
"""What measures: refusals about hardware and peers."""

PROFILER = 2
"""``sys.monitoring.PROFILER_ID``."""

Line = tuple[str, int]
"""A file, relative to the tree, and a line."""


def raise_lines(root: Path = ROOT, packages: Iterable[str] = PACKAGES) -> dict[Line, str]:
    """The statements that make an error, with their first line; not those that pass one on."""
    found = {}
    for path in sorted(p for package in packages for p in (root / package).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(BENCHES):
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Raise) and node.exc is not None:
                found[name, node.lineno] = lines[node.lineno - 1].strip()
    return found


class Reached:
    """The lines of a tree on which something was raised, from the time it is started.

    Args:
        root: of the tree.
        tool: whose events they are to Python, that of profilers; each listens for itself.
    """

    def __init__(self, root: Path = ROOT, tool: int = PROFILER) -> None:
        self._root, self._tool = str(root) + "/", tool
        self._seen: set[tuple[CodeType, int]] = set()

    def start(self) -> None:
        """Listen; needs Python 3.12."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        monitoring.use_tool_id(self._tool, "raises")
        monitoring.register_callback(self._tool, monitoring.events.RAISE, self._raised)
        monitoring.set_events(self._tool, monitoring.events.RAISE)

    def stop(self) -> None:
        """Listen no more."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        monitoring.set_events(self._tool, 0)
        monitoring.free_tool_id(self._tool)

    def _raised(self, code: CodeType, offset: int, _: BaseException) -> None:
        if code.co_filename.startswith(self._root):
            self._seen.add((code, offset))

    def lines(self) -> Iterator[Line]:
        """Where, the first line of each statement."""
        for code, offset in self._seen:
            start, *_ = list(code.co_positions())[offset // 2]
            if start is not None:
                yield code.co_filename.removeprefix(self._root), start


# --- within pytest -------------------------------------------------------------------------------

REACHED = pytest.StashKey[Reached]()
LINES = pytest.StashKey[set[Line]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--raises", action="store_true", help="list the raise lines that no test has reached"
    )


def _listens(config: pytest.Config) -> bool:
    return bool(config.getoption("--raises")) and sys.version_info >= (3, 12)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = set()
    if _listens(config):
        config.stash[REACHED] = Reached()
        config.stash[REACHED].start()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not _listens(session.config):
        return
    session.config.stash[REACHED].stop()
    lines = set(session.config.stash[REACHED].lines())
    session.config.stash[LINES] |= lines
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["raises"] = sorted(lines)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", {})  # a worker that crashed has none
    node.config.stash[LINES] |= {(file, line) for file, line in output.get("raises", ())}


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not _listens(config):
        return
    everything = raise_lines()
    left = {at: text for at, text in everything.items() if at not in config.stash[LINES]}
    terminalreporter.section(f"{len(left)} of {len(everything)} raise lines were not reached")
    for (file, line), text in sorted(left.items()):
        terminalreporter.write_line(f"{file}:{line}: {text}")
