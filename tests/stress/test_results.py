"""Rows of a run: what is written is read again, what is of others is refused, and the summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.bench.method.appended import append
from wsched.stress import command
from wsched.stress.launches import Where
from wsched.stress.results import SCHEMA, Failure, Row, read_rows, summary
from wsched.stress.run import Plan

COMMAND = {"seed": 0, "largest": 40}
ROWS = (
    Row(0, "a", 250, 6, 1.0, (), "", "linear"),
    Row(1, "", 0, 0, 0.0, (), "no such schedule"),
    Row(2, "b", 9, 0, 0.5, (Failure(3, "8x8x8", "2 elements"), Failure(-1, "", "no end"))),
)


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert read_rows(path, COMMAND) == []
    append(path, {"schema": SCHEMA, "command": COMMAND})
    assert read_rows(path, COMMAND) == []
    for row in ROWS:
        append(path, row.to_dict())
    append(path, {"of": "a later version"})
    assert read_rows(path, COMMAND) == list(ROWS)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (None, f"--json {{}} without the schema {SCHEMA} is not supported; supported: a file of "
               "this run"),
        ({"schema": "other"}, f"--json {{}} without the schema {SCHEMA} is not supported; "
                              "supported: a file of this run"),
        ({"schema": SCHEMA, "command": {"seed": 1}},
         '--json {} of a run with other options ({{"seed": 1}}) is not supported; supported: '
         '{{"seed": 0, "largest": 40}}'),
    ],
)  # fmt: skip
def test_files_of_others(head: dict[str, Any] | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.touch()
    if head is not None:
        append(path, head)
    with pytest.raises(UnsupportedError) as error:
        read_rows(path, COMMAND)
    assert str(error.value) == said.format(path)


@pytest.mark.parametrize(
    ("rows", "seconds", "said"),
    [
        (ROWS, 2.0, "259 launches of 2 kernels in 2 s, 130 a second, 2 WRONG, 6 refused, "
                    "1 kernels unmade"),
        (ROWS[:1], 100.0, "250 launches of 1 kernels in 100 s, 2 a second, none wrong, 6 refused"),
        ((), 0.0, "0 launches of 0 kernels in 0 s, 0 a second, none wrong"),
    ],
)  # fmt: skip
def test_the_summary(rows: tuple[Row, ...], seconds: float, said: str) -> None:
    assert summary(rows, seconds) == said


def test_a_kernel_is_watched_until_its_row_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no longer: what is told and kept of it takes its time."""
    done: list[Any] = []
    path = tmp_path / "rows.jsonl"

    @contextmanager
    def watchdog(seconds: float, keep: Any) -> Iterator[Callable[[int | None], None]]:
        assert seconds == 2.5
        yield done.append

    def rows(plan: Plan, before: set[int], watch: Callable[[int | None], None]) -> Iterator[Row]:
        assert before == {7}
        for row in ROWS:
            watch(row.kernel)
            yield row

    def keep(path: Path, line: dict[str, Any]) -> None:
        done.append(line)

    monkeypatch.setattr(command, "_watchdog", watchdog)
    monkeypatch.setattr(command, "rows", rows)
    monkeypatch.setattr(command, "append", keep)
    monkeypatch.setattr(command, "lives", lambda where: False)
    plan = Plan(Where("cpu", 40, 9), 3, 60, 1, 1)
    assert command._run(plan, path, [Row(7, "c", 1, 0, 0.1, ())], 2.5) == list(ROWS)
    assert done == [x for row in ROWS for x in (row.kernel, None, row.to_dict())]
    unmade, wrong, hung, total, lost = capsys.readouterr().out.splitlines()
    again = "--seed 9 --largest 40 --only 2"
    assert unmade == "unmade: no such schedule (--seed 9 --largest 40 --only 1)"
    assert wrong == f"WRONG b on 8x8x8: 2 elements ({again}.3)"
    assert hung == f"WRONG b: no end ({again})"
    assert total.startswith("259 launches of 2 kernels in 0 s, ")
    assert lost == "The device is lost: another process goes on with --json FILE --resume."
