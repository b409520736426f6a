"""Processes of a series: rows, cases whose process ends, and a later run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.series import LOST, Row, Series, options_of

CASES = """
import json, pathlib, sys

kept = pathlib.Path(sys.argv[sys.argv.index("--results") + 1])
done = [json.loads(line)[0] for line in kept.read_text().splitlines()] if kept.exists() else []
for number in range(1_000_000, 1_000_005):
    if number not in done:
        print(json.dumps([number]), flush=True)
        if number % 5 == 1:
            sys.exit(3)
        print(json.dumps([number, "", "ran"]), flush=True)
        if number % 5 == 2:
            sys.exit(LAST)
"""


def series(*more: str) -> Series:
    options = options_of("", "cases", 5, 64).parse_args(["--jobs", "1", *more])
    return Series("cases", (), options)


def test_a_process_that_ends_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a case, or between two because the device is lost; nothing runs twice."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.py").write_text(CASES.replace("LAST", str(LOST)))
    rows: list[Row] = series("--results", "rows").run()
    told = {number: wrong for number, _, wrong in rows}
    assert len(rows) == 5 and told.pop(1_000_001) == "its process ended"
    assert set(told.values()) == {"ran"}
    before = Path("rows").read_text()
    assert series("--results", "rows").run() == rows and Path("rows").read_text() == before


def test_a_process_that_says_why_ends_the_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.py").write_text(CASES.replace("LAST", "1"))
    with pytest.raises(RuntimeError, match="cases ended with 1"):
        series().run()
