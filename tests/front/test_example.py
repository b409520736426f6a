"""The example of a schedule of one's own, on the machine model."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from examples.own_schedule import main
from wsched import Schedule


def test_own_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    path = tmp_path / "own.sched"
    assert main(str(path)) < 4e-3
    printed = capsys.readouterr().out
    assert "ScheduleError[load-order]" in printed and "legal here: merge the load loops" in printed
    assert f"{Schedule.load(path).check()}" in printed
