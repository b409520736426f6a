"""Two tiers of tests: ``make test`` leaves out those marked ``slow``, ``make test-all`` has both.

A test is slow above :data:`LIMIT` seconds of processor time, its fixtures and processes included,
however busy the machine is. The end of a run lists those above it that have no mark, and
``--seconds=FILE`` writes what each test took, the dearest first.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

LIMIT = 3.0
"""Seconds of processor time."""

PROPERTY = "processor seconds"
"""Under which a worker of pytest-xdist reports them."""

BEGIN = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", metavar="FILE", help="write each test's processor time there")


def in_tiers(values: Iterable[str], quick: Collection[str]) -> list[Any]:
    """Parameters of a test, of which all but the ``quick`` ones make it slow."""
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in values]


def dealt(first: Iterable[Any], second: Sequence[Any]) -> list[Any]:
    """The pairs of two lists as parameters of a test, quick ones as many as the first is long.

    These are each of the first, with those of the second in turn; the other pairs are slow. What
    is a tuple in the first is so many parameters.
    """
    return [
        pytest.param(
            *(a if isinstance(a, tuple) else (a,)), b,
            marks=[pytest.mark.slow] * (i % len(second) != j),
        )
        for i, a in enumerate(first)
        for j, b in enumerate(second)
    ]  # fmt: skip


def seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    item.stash[BEGIN] = seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.when == "teardown":
        report.user_properties.append((PROPERTY, seconds() - item.stash[BEGIN]))
    return report


def taken(reports: list[pytest.TestReport]) -> list[tuple[float, pytest.TestReport]]:
    """What each test took, the dearest first."""
    found = [
        (float(value), report)  # type: ignore[arg-type]
        for report in reports
        for name, value in report.user_properties
        if name == PROPERTY
    ]
    return sorted(found, key=lambda f: f[0], reverse=True)


def unmarked(reports: list[pytest.TestReport]) -> list[tuple[float, str]]:
    """Tests above the limit without the mark, with their seconds, slowest first."""
    return [(s, r.nodeid) for s, r in taken(reports) if s > LIMIT and "slow" not in r.keywords]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    # What a teardown reports stands under "", if it passed.
    reports = [r for r in terminalreporter.stats.get("", ()) if isinstance(r, pytest.TestReport)]
    if file := terminalreporter.config.getoption("--seconds"):
        lines = (f"{took:8.3f} {report.nodeid}\n" for took, report in taken(reports))
        Path(file).write_text("".join(lines), encoding="utf-8")
    if found := unmarked(reports):
        terminalreporter.section(f"{len(found)} tests are slow and not marked so")
        for took, test in found:
            terminalreporter.write_line(f"{took:6.1f} s  {test}")
