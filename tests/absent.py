"""Tests that need torch or nvFuser are skipped where these are not installed.

The set-up leaves both out if ``WSCHED_NO_NVFUSER`` says so.

A test needs what its own file, or another one of the tests, imports. A part of wsched that imports
torch where it should do without fails its tests, as any defect does.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest

__all__ = ["absent"]

TESTS = Path(__file__).resolve().parent
OPTIONAL = ("torch", "nvfuser_direct")


def absent(error: BaseException | None) -> str:
    """Why a test is skipped that ended with this error; empty where it failed."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    package = (error.name or "").partition(".")[0]
    if package not in OPTIONAL or package in sys.modules or find_spec(package) is not None:
        return ""
    files = [Path(frame.f_code.co_filename) for frame, _ in walk_tb(error.__traceback__)]
    own = [f for f in files if f.is_relative_to(TESTS.parent) and "site-packages" not in f.parts]
    return f"{package} is not installed" if own and own[-1].is_relative_to(TESTS) else ""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """A file that imports it; half a module is not left to others."""
    report = yield
    raised = report.call.excinfo
    if raised is not None and (why := absent(raised.value.__cause__)):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 1, f"Skipped: {why}")
    if report.skipped and isinstance(collector, pytest.Module):
        name = collector.path.relative_to(TESTS.parent).with_suffix("").parts
        sys.modules.pop(".".join(name), None)
    return report


def _run() -> Generator[None, Any, Any]:
    try:
        return (yield)
    except ModuleNotFoundError as e:
        if why := absent(e):
            pytest.skip(why)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, Any, Any]:
    """A fixture that imports it."""
    return (yield from _run())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """A test that imports it."""
    return (yield from _run())
