"""Two tiers of tests: ``make test`` leaves out those marked ``slow``, ``make test-all`` has both.

A test is slow above :data:`LIMIT` seconds of processor time, its fixtures and processes included,
however busy the machine is. The end of a run lists those above it that have no mark, and
``--seconds=FILE`` writes what each test took, the dearest first.

Where each case of a test takes a tenth of a second or more, mostly since it makes, proves or runs
a kernel of its own, the test is ``sampled``: two of its cases are quick and the others slow, or as
many as a number says, ``sampled(1)`` where a case takes half a second. Which these are goes with
the file's name, so that files that share a list of schedules, as most do, each take others of it,
and the tests of one file the same. A test all of whose cases are slow is marked so as a whole;
``tests/test_tiers.py`` holds that.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

LIMIT = 1.0
"""Seconds of processor time."""

PROPERTY = "processor seconds"
"""Under which a worker of pytest-xdist reports them."""

BEGIN = pytest.StashKey[float]()

WITHOUT_A_QUICK_CASE = pytest.StashKey[list[str]]()
"""Tests of this run that are slow only because each of their cases is."""


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


def chosen(file: str, count: int, quick: int = 2) -> set[int]:
    """Which cases of a test in a file are quick, as many as are asked for, evenly apart."""
    turn = zlib.crc32(file.encode())
    return {(turn + count * i // quick) % count for i in range(quick)}


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def _is_slow_as_a_whole(item: pytest.Item) -> bool:
    of_case = getattr(getattr(item, "callspec", None), "marks", ())
    return any(m not in of_case for m in item.iter_markers("slow"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    bare = []
    for test, cases in tests.items():
        left = [c for c in cases if not _is_slow(c)]
        if not left and not any(map(_is_slow_as_a_whole, cases)):
            bare.append(test)
        if left and (mark := left[0].get_closest_marker("sampled")):
            quick = chosen(test.partition("::")[0], len(left), *mark.args)
            for i in {*range(len(left))} - quick:
                left[i].add_marker("slow")
    # Of a test that was named with one case nobody knows the others.
    config.stash[WITHOUT_A_QUICK_CASE] = bare if not any("::" in a for a in config.args) else []


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
