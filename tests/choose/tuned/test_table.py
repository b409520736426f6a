"""Tables as files: their text, merging, and what becomes of them when writing fails."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.choose.tuned.entries import PROBLEM, entry, problem
from wsched.choose.tuned import lookup, table
from wsched.choose.tuned.entry import Entry, problem_to_dict
from wsched.choose.tuned.table import (
    SCHEMA,
    Table,
    TableError,
    add_entries,
    read_entries,
    read_table,
    table_text,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "tuned.json"


def names(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir() if not p.name.endswith(".lock"))


def test_text(golden: object) -> None:
    """The parameters stand as they were read, whichever fields they have."""
    params = {"cluster_dims": {"m": 2, "n": 1}, "num_registers": "auto"}
    rest = {"params": params, "us": 9.5, "choice_us": None, "wsched": "0.1.0", "date": "2026-11-21"}
    found = (problem(8192, 512, 512), PROBLEM, replace(PROBLEM, gpu="NVIDIA GH200"))
    entries = {p: {"problem": problem_to_dict(p)} | rest for p in found}
    assert table_text(Table(entries, (({"problem": 3}, "why"),))) == golden


def test_file(path: Path) -> None:
    add_entries(path, [entry(problem(8192)), entry()])
    table = read_table(path)
    assert list(table.entries) == [PROBLEM, problem(8192)]
    assert [Entry.of(p, data) for p, data in table.entries.items()] == [
        entry(), entry(problem(8192)),
    ]  # fmt: skip
    assert table_text(table) == path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 and names(path) == ["tuned.json"]


def test_a_link_stays_one(path: Path, tmp_path: Path) -> None:
    add_entries(path, [entry()])
    (tmp_path / "link.json").symlink_to(path)
    add_entries(tmp_path / "link.json", [entry(problem(8192))])
    assert (tmp_path / "link.json").is_symlink() and len(read_table(path).entries) == 2


def test_no_entries() -> None:
    assert json.loads(table_text(Table())) == {"schema": SCHEMA, "entries": []}


def test_a_missing_file_is_an_empty_table(path: Path) -> None:
    assert read_table(path) == Table()


@pytest.mark.parametrize("first", [1, 2])
def test_the_later_measurement_stays(path: Path, first: int) -> None:
    for day in (first, 3 - first):
        add_entries(path, [entry(day=day, us=float(day))])
    assert read_table(path).entries[PROBLEM]["us"] == 2.0


def test_of_the_same_second_the_last_one_stays(path: Path) -> None:
    for us in (3.0, 4.0):
        add_entries(path, [entry(us=us)])
    assert read_table(path).entries[PROBLEM]["us"] == 4.0


def test_what_another_version_wrote_is_kept(path: Path) -> None:
    add_entries(path, [entry()])
    data = json.loads(path.read_text())
    data["entries"][0]["params"]["new_field"] = 1
    strange = {"problem": {"batches": 3}, "params": {}}
    data["entries"] += [strange, 7]
    path.write_text(json.dumps(data))
    add_entries(path, [entry(problem(8192))])
    table = read_table(path)
    assert table.entries[PROBLEM]["params"]["new_field"] == 1
    assert table.unread == (
        (strange, "a problem has no 'batches'"), (7, "an entry is 7, not a dict"),
    )  # fmt: skip
    assert list(table.entries) == [PROBLEM, problem(8192)]


@pytest.mark.parametrize("name", ['a"b', "\\", "\n", "\ud800", "é"])
def test_names_that_json_escapes(path: Path, name: str) -> None:
    add_entries(path, [entry()])
    data = json.loads(path.read_text())
    data["entries"][0] |= {name: 1, "params": data["entries"][0]["params"] | {name: {name: name}}}
    path.write_text(json.dumps(data))
    add_entries(path, [entry(problem(8192))])
    kept = read_table(path).entries[PROBLEM]
    assert kept[name] == 1 and kept["params"][name] == {name: name}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read (Expecting property name"),
        ("\xff", "has schema None"),
        ("[" * 100_000, "cannot be read ("),
        ("[]", f"has schema None, this version of wsched reads '{SCHEMA}'"),
        ('{"schema": "wsched.tuned/2"}', "has schema 'wsched.tuned/2', this version"),
        (f'{{"schema": "{SCHEMA}", "entries": {{}}}}', "has no list of entries"),
    ],
)
def test_no_table_is_never_written(path: Path, text: str, said: str) -> None:
    path.parent.mkdir()
    path.write_text('"x"' if text == "\xff" else text)
    before = path.read_bytes()
    with pytest.raises(TableError) as error:
        add_entries(path, [entry()])
    assert str(error.value).startswith(f"{path} {said}")
    assert path.read_bytes() == before and names(path) == ["tuned.json"]


@pytest.mark.parametrize("end", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_and_ctrl_c(
    path: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException, step: str
) -> None:
    add_entries(path, [entry()])
    before = path.read_bytes()

    def ended(*args: Any) -> None:
        raise end

    with monkeypatch.context() as patched:
        patched.setattr(os, step, ended)
        with pytest.raises(type(end)):
            add_entries(path, [entry(problem(8192))])
    assert path.read_bytes() == before and names(path) == ["tuned.json"]
    add_entries(path, [entry(problem(8192))])
    assert len(read_table(path).entries) == 2


def test_a_table_that_another_process_keeps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for so long, and not forever."""
    add_entries(path, [entry()])
    monkeypatch.setattr(table, "LOCK_SECONDS", 0.01)
    kept = FileLock(str(path.with_name(".tuned.json.lock")), thread_local=False)
    with kept:
        later = threading.Timer(1.0, kept.release)
        later.start()
        with pytest.raises(OSError, match="could not be acquired"):
            add_entries(path, [entry(problem(8192))])
        later.cancel()
    assert list(read_table(path).entries) == [PROBLEM]


@pytest.mark.slow
def test_processes_at_once(path: Path) -> None:
    count = 6
    words = [sys.executable, "-m", "tests.choose.tuned.entries", str(path)]
    running = [subprocess.Popen([*words, str(i), str(count)]) for i in range(2)]
    assert [p.wait(timeout=60) for p in running] == [0, 0]
    found = read_table(path)
    assert sorted(p.m for p in found.entries) == [64 * (i + 1) for i in range(2 * count)]
    assert not found.unread and names(path) == ["tuned.json"]


@pytest.mark.parametrize("file", lookup.shipped_tables(), ids=lambda p: p.name)
def test_shipped(file: Path) -> None:
    """Sorted, as add_entries writes it, and every entry legal."""
    table = read_table(file)
    assert not table.unread and table_text(table) == file.read_text()
    for of, data in table.entries.items():
        assert Entry.of(of, data).problem == of


@pytest.mark.parametrize("file", lookup.shipped_tables(), ids=lambda p: p.name)
def test_entries_of_sizes(file: Path) -> None:
    """Of a shipped file the same as reading all of it finds, and nothing where it has none."""
    whole = read_table(file).entries
    for m, n, k in {(p.m, p.n, p.k) for p in whole} | {(1, 2, 3)}:
        found = read_entries(file, (m, n, k))
        assert found == Table({p: d for p, d in whole.items() if (p.m, p.n, p.k) == (m, n, k)})


def test_entries_of_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert read_entries(tmp_path / "none.json", (1, 2, 3)) == Table()
    (tmp_path / "cut.json").write_text('  {\n   "problem": {"m": 1, "n": 2, "k": 3, ')
    for name in ("cut.json", "."):
        with pytest.raises(TableError, match="cannot be read"):
            read_entries(tmp_path / name, (1, 2, 3))


def test_two_are_shipped() -> None:
    assert [p.name for p in lookup.shipped_tables()] == ["h100.json", "h200.json"]
