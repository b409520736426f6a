"""Lines of a file that processes write which may die."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.bench.method.appended import Keep, append, lines, read


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


HEAD = {"schema": "some/1", "command": {"rounds": 2}, "method": "as said"}


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    """A head in front of what a run finds first; what is told again as it was is no line."""
    path = tmp_path / "rows.jsonl"
    assert read(path, "some/1", {"rounds": 2}) == {}
    for number, results in enumerate(({"a": {"us": 1}}, {"a": {"us": 2}, "b": {"us": 3}})):
        found = read(path, "some/1", {"rounds": 2})
        keep = Keep(path, HEAD, found, process=number)
        assert path.exists() is bool(number)
        keep({"gpu": "fake"}, {})
        keep({"gpu": "fake"}, results)
        keep({"gpu": "none"}, results)
        assert found == read(path, "some/1", {"rounds": 2}) == results
    head = {**HEAD, "environment": {"gpu": "fake"}}
    assert list(lines(path)) == [
        head, {"process": 0, "problem": "a", "result": {"us": 1}},
        head, {"process": 1, "problem": "a", "result": {"us": 2}},
        {"process": 1, "problem": "b", "result": {"us": 3}},
    ]  # fmt: skip


def test_without_a_file_results_are_kept_all_the_same() -> None:
    found: dict[str, dict[str, Any]] = {}
    Keep(None, HEAD, found)({}, {"a": {"us": 1}})
    assert found == {"a": {"us": 1}}


@pytest.mark.parametrize(
    ("schema", "command", "said"),
    [
        ("other/1", {"rounds": 2},
         "--json {} without the schema other/1 is not supported; supported: a file of this bench"),
        ("some/1", {"rounds": 3},
         '--json {} of a run with other options ({{"rounds": 2}}) is not supported; supported: '
         '{{"rounds": 3}}'),
    ],
)  # fmt: skip
def test_files_of_others(schema: str, command: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append(path, {"problem": "in front of all heads", "result": {}})
    Keep(path, HEAD, {})({}, {"a": {}})
    with pytest.raises(UnsupportedError) as error:
        read(path, schema, command)
    assert str(error.value) == said.format(path)
    assert read(path, "some/1", {"rounds": 2}) == {"a": {}}
