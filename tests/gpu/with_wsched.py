"""A pytest plugin, ``-p tests.gpu.with_wsched``: every test runs with wsched installed.

At the end it says how many classes of inputs wsched took, and why it did not take the others.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import wsched
from wsched.doors.dropin import Decision, execute

_decisions: Counter[str] = Counter()
_decide = execute.decide


def _listening(known: Any, inputs: Any) -> Decision:
    decision = _decide(known, inputs)
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


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was decided."""
    terminalreporter.section("wsched")
    for reason, count in _decisions.most_common():
        terminalreporter.write_line(f"{count:5} {reason}")
