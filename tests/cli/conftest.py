"""What commands are given, and how a terminal shows what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schedules import definition


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with the definition of a linear."""
    path = tmp_path / "linear.py"
    path.write_text(definition())
    return path


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A wide terminal without colours, and a cache of this test's own."""
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "200")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(tmp_path / "cubins"))
