"""What ``wsched tune`` makes of the times that it has measured."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.bench.test_tune import LARGE, SMALL, result
from wsched.bench.tune import command
from wsched.bench.tune.results import notes, outcome_of, shown
from wsched.choose.tuned.table import TableError


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        ([9.0, 9.0, 9.5, 9.0], "b"),
        ([9.0, 9.0, 10.5, 10.5], "a"),  # as often slower as faster
        ([9.5, 9.5, 10.4, 9.9], "a"),  # the lower quartile is below 1
        ([11.0, 11.0, 11.0, 11.0], "a"),
    ],
)
def test_faster_by_more_than_the_noise(other: list[float], kept: str) -> None:
    made = outcome_of(SMALL, result([10.0] * 4, other), "0.1.0", "2026-11-21T09:00:00+00:00")
    assert made.entry is not None and made.ratio is not None
    assert (made.name, made.rank) == (kept, {"a": 1, "b": 2}[kept])
    assert (made.ratio.low > 1) is (kept == "b")


def test_without_the_models_choice_the_fastest_is_kept() -> None:
    """Whatever its name, and with nothing to compare it with."""
    told = result([10.0] * 4, [9.5] * 4)
    told["systems"]["c"] = told["systems"]["b"] | {"rank": 3, "times_us": [9.0] * 4}
    told["finalists"]["c"] = told["finalists"]["a"]
    told["systems"]["a"] = {"status": "wrong", "reason": "off", "times_us": [1.0] * 4}
    made = outcome_of(SMALL, told, "0.1.0", "2026-11-21T09:00:00+00:00")
    assert made.entry is not None
    assert (made.name, made.rank, made.ratio, made.broken) == ("c", 3, None, True)
    assert (made.entry.us, made.entry.choice_us) == (9.0, None)
    assert made.entry.params.to_dict() == told["finalists"]["c"]
    assert made.left_out == (("a", "wrong", "off"),)


def test_shown(golden: object) -> None:
    date = "2026-11-21T09:00:00+00:00"
    first = outcome_of(SMALL, result([10.0] * 4, [9.0] * 4), "0.1.0", date)
    stays = outcome_of(LARGE, result([10.0] * 4, [11.0] * 4), "0.1.0", date)
    lost = result([], [])
    lost["systems"] = {"a": {"status": "failed", "reason": "hung"}}
    none = outcome_of("8x8x8", lost, "0.1.0", date)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(shown([first, stays, none]))
    assert console.export_text() == golden
    assert notes([first, none]) == ["a failed at 8x8x8: hung"]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("quota"), "quota"),
        (PermissionError(), "PermissionError"),
    ],
)
def test_a_table_that_cannot_be_written(
    error: OSError, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(table: Path, entries: Any) -> None:
        raise error

    monkeypatch.setattr(command, "add_entries", fail)
    with pytest.raises(TableError) as caught:
        command._add(tmp_path, ())
    assert str(caught.value) == f"{tmp_path} cannot be written ({why}); it is as it was"
