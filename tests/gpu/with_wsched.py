"""A pytest plugin, ``-p tests.gpu.with_wsched``: every test runs with wsched installed.

At the end it says how many classes of inputs wsched took, and why it did not take the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

import wsched
from wsched.doors.dropin import Decision, execute

_decisions: Counter[str] = Counter()
_decide = execute.decide


def _listening(known: Any, inputs: Any, constants: Sequence[int] = ()) -> Decision:
    decision = _decide(known, inputs, constants)
    _decisions[decision.reason or "taken"] += 1
    return decision


def pytest_configure(config: pytest.Config | None) -> None:
    """Install wsched, and listen to what it decides."""
    execute.decide = _listening
    wsched.install()


def pytest_unconfigure(config: pytest.Config | None) -> None:
    """Put nvFuser's own function back."""
    wsched.uninstall()
    execute.decide = _decide
    _decisions.clear()


def pytest_sessionfinish(session: Any) -> None:
    """Tell the process that started this one, if it is a worker of pytest-xdist."""
    if (told := getattr(session.config, "workeroutput", None)) is not None:
        told["wsched"] = dict(_decisions)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear what a worker was told."""
    _decisions.update(getattr(node, "workeroutput", {}).get("wsched", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was decided."""
    terminalreporter.section("wsched")
    for reason, count in _decisions.most_common():
        terminalreporter.write_line(f"{count:5} {reason}")
