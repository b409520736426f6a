"""Lines of a file that processes write which may die."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from wsched.bench.method.appended import append, lines


def test_what_a_process_that_died_has_left_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append(path, {"a": 1})
    with path.open("ab") as file:
        file.write(b'[2]\n\xff\xfe\n{"b": ')
    append(path, {"c": 3})
    assert path.read_bytes().endswith(b'{"b": \n{"c":3}\n')
    assert list(lines(path)) == [{"a": 1}, {"c": 3}]


def test_a_line_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, when the system is asked to put it there."""
    path, seen = tmp_path / "rows.jsonl", list[bytes]()

    def fsync(number: int) -> None:
        assert os.fstat(number).st_ino == path.stat().st_ino
        seen.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", fsync)
    line: dict[str, Any] = {"a": [1, 2]}
    append(path, line)
    assert seen == [b'{"a":[1,2]}\n']
