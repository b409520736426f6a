"""Which table counts, what is ignored with which warning, and what the heuristic makes of it."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lowering.ground.errors import UnsupportedError
from tests.choose.tuned.entries import PROBLEM, entry, problem
from wsched.choose.gpus import GPUS
from wsched.choose.heuristics import choose_params, modelled, taken
from wsched.choose.problem import Problem
from wsched.choose.tuned import lookup as module
from wsched.choose.tuned.lookup import VARIABLE, forget, lookup, user_table
from wsched.choose.tuned.table import add_entries

END = f"; the cost model chooses instead. {VARIABLE}=0 ignores all tables."


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's table of this test's own, and an empty shipped one."""
    path = tmp_path / "own" / "tuned.json"
    monkeypatch.setenv(VARIABLE, str(path))
    monkeypatch.setattr(module, "shipped_tables", lambda: (tmp_path / "shipped.json",))
    forget()
    yield path
    forget()


def warned(path: Path, what: str) -> None:
    """The cost model chooses, with one warning however often it is asked."""
    with pytest.warns(RuntimeWarning) as caught:
        assert [choose_params(PROBLEM) for _ in range(3)] == [modelled(PROBLEM)] * 3
        choose_params(problem(8192))
    assert [str(w.message) for w in caught] == [f"wsched: {path}: {what}{END}"]


def test_an_exact_hit_wins_over_the_model(path: Path) -> None:
    add_entries(path, [entry()])
    hit = lookup(PROBLEM)
    assert hit is not None and (hit.entry, hit.file) == (entry(), path)
    assert choose_params(PROBLEM) == entry().params != modelled(PROBLEM)
    assert choose_params(PROBLEM, tuned=False) == modelled(PROBLEM)


def test_weights_side_by_side_take_the_schedule_of_one(path: Path) -> None:
    """Where that makes no more tiles, of 64 columns of one weight; the time is not theirs."""
    add_entries(path, [entry()])
    n = PROBLEM.n
    for parts, alike in (((n - 128, 128), True), ((n // 2 - 8, n // 2 + 8), False)):
        found = taken(replace(PROBLEM, n_entries=parts))
        assert (found.params == entry().params) is alike and found.hit is None
    assert taken(replace(PROBLEM, n_entries=(n,)), tuned=False).params == modelled(PROBLEM)


@pytest.mark.parametrize(
    "other",
    [{"m": 513}, {"sms": 114, "gpu": "NVIDIA H100 PCIe"}, {"work": 1}, {"n_major": True}],
)
def test_another_problem_is_no_hit(path: Path, other: dict[str, object]) -> None:
    add_entries(path, [entry()])
    asked = replace(PROBLEM, **other)  # type: ignore[arg-type]
    assert lookup(asked) is None and choose_params(asked) == modelled(asked)


def on(name: str) -> Problem:
    return replace(PROBLEM, gpu=GPUS[name].name, l2_bytes=GPUS[name].l2_bytes)


def test_a_sister_serves_where_nothing_was_measured(path: Path) -> None:
    """As many multiprocessors, another memory: what is nearest in its L2, unless it is illegal."""
    asked = replace(PROBLEM, gpu="NVIDIA H200 NVL")
    add_entries(path, [])
    assert lookup(asked) is None
    add_entries(path, [entry(on("H100"), "coop_128x128"), entry(on("H200"))])
    forget()
    hit = lookup(asked)
    assert hit is not None and hit.of_sister and hit.gpu == GPUS["H200"].name
    assert hit.entry == replace(entry(), problem=asked) and choose_params(asked) == entry().params
    own = lookup(on("H100"))
    assert own is not None and not own.of_sister and own.gpu == GPUS["H100"].name
    assert own.entry == entry(on("H100"), "coop_128x128")


def test_a_batch_invariant_problem_on_a_sister(path: Path) -> None:
    add_entries(path, [entry(on("H100"))])
    hit = lookup(replace(PROBLEM, batch_invariant=True))
    assert hit is not None and hit.of_sister and hit.gpu == GPUS["H100"].name
    assert hit.entry.params == replace(entry().params, batch_invariant=True)


def test_of_a_broken_entry_that_of_a_sister_is_taken(path: Path) -> None:
    add_entries(path, [entry(), entry(on("H100"))])
    data = json.loads(path.read_text())
    for found in data["entries"]:
        if found["problem"]["gpu"] == PROBLEM.gpu:
            found["us"] = 0
    path.write_text(json.dumps(data))
    with pytest.warns(RuntimeWarning, match="the entry for 512x4096x1024 is ignored: us is 0"):
        hit = lookup(PROBLEM)
    assert hit is not None and hit.gpu == GPUS["H100"].name


def test_a_batch_invariant_problem(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule that sums in the fixed order serves both, one that does not only the plain one."""
    asked = replace(PROBLEM, batch_invariant=True)
    add_entries(path, [entry()])
    assert choose_params(asked) == replace(entry().params, batch_invariant=True)
    hit = lookup(asked)
    assert hit is not None and hit.entry.problem == asked
    monkeypatch.setattr(module, "fixed_k_order", lambda params: False)
    forget()
    assert choose_params(PROBLEM) == entry().params
    assert choose_params(asked) == modelled(asked)
    own = entry(asked)
    add_entries(path, [replace(own, params=replace(own.params, batch_invariant=True))])
    forget()
    assert choose_params(asked) == replace(own.params, batch_invariant=True)


def test_a_table_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "typo.json"
    monkeypatch.setenv("WSCHED_TUNED", str(missing))
    forget()
    with pytest.warns(RuntimeWarning) as warned:
        lookup(PROBLEM)
    assert [str(w.message) for w in warned] == [
        f"wsched: {missing}: WSCHED_TUNED names it, and there is no such file; it counts as empty. "
        "WSCHED_TUNED=0 ignores all tables."
    ]


@pytest.mark.parametrize("setting", ["", "{}"], ids=["of the user", "named"])
def test_a_table_that_cannot_be_looked_at(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a home of another user: the choice is the cost model's, told where it was asked for."""
    home = tmp_path / ("x" * 300)
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    monkeypatch.setenv(VARIABLE, setting.format(home / "t.json"))
    forget()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert choose_params(PROBLEM) == modelled(PROBLEM)
    told = f"wsched: {home / 't.json'}: the table is ignored: File name too long; the cost model"
    assert [str(w.message).startswith(told) for w in said] == [True] * bool(setting)


def test_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_entries(path, [entry()])
    assert lookup(PROBLEM) is not None
    monkeypatch.setenv(VARIABLE, "0")
    assert lookup(PROBLEM) is None and choose_params(PROBLEM) == modelled(PROBLEM)


def test_the_users_table_counts_more_than_the_shipped_one(path: Path, tmp_path: Path) -> None:
    shipped = tmp_path / "shipped.json"
    add_entries(shipped, [entry(name="cluster_2x1"), entry(problem(8192), name="cluster_2x1")])
    add_entries(path, [entry(name="pingpong_128x128")])
    assert choose_params(PROBLEM) == entry(name="pingpong_128x128").params
    found = lookup(problem(8192))
    assert found is not None and found.file == shipped


def test_a_table_is_read_once(path: Path) -> None:
    add_entries(path, [])
    assert lookup(PROBLEM) is None
    add_entries(path, [entry()])
    assert lookup(PROBLEM) is None
    forget()
    assert lookup(PROBLEM) is not None


def test_an_illegal_entry(path: Path) -> None:
    add_entries(path, [replace(entry(), params=replace(entry().params, batch_invariant=True))])
    warned(
        path,
        "the entry for 512x4096x1024 is ignored: batch_invariant=True: the problem says otherwise",
    )


def test_an_illegal_entry_of_the_user_leaves_the_shipped_one(path: Path, tmp_path: Path) -> None:
    add_entries(path, [replace(entry(), params=replace(entry().params, batch_invariant=True))])
    add_entries(tmp_path / "shipped.json", [entry(name="cluster_2x1")])
    with pytest.warns(RuntimeWarning, match="is ignored"):
        assert choose_params(PROBLEM) == entry(name="cluster_2x1").params


def test_an_entry_for_an_unknown_problem(path: Path) -> None:
    add_entries(path, [entry(problem(64))])
    data = json.loads(path.read_text())
    data["entries"] += [{"problem": 3}, {}]
    path.write_text(json.dumps(data))
    warned(path, "2 entries are ignored: problem is 3, not a dict")
    assert lookup(problem(64)) is not None


def test_another_schema(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"schema": "wsched.tuned/9"}')
    warned(
        path,
        f"the table is ignored: {path} has schema 'wsched.tuned/9', this version of wsched reads "
        "'wsched.tuned/1'",
    )


@pytest.mark.parametrize("folder", [False, True])
def test_a_table_that_others_can_write(path: Path, folder: bool) -> None:
    add_entries(path, [entry()])
    open_one = path.parent if folder else path
    open_one.chmod(0o777)
    warned(path, f"the table is ignored: {open_one} can be written by others")


def test_no_table_in_a_folder_of_others(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="there is no such file") as warned:
        assert choose_params(PROBLEM) == modelled(PROBLEM)
    assert len(warned) == 1  # none of the folder


def test_a_table_of_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_entries(path, [entry()])
    monkeypatch.setattr(os, "getuid", lambda: os.stat(path).st_uid + 1)
    warned(path, f"the table is ignored: {path} belongs to another user")


def test_where_the_users_table_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert user_table() == tmp_path / "own" / "tuned.json"
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert user_table() == tmp_path / "wsched" / "tuned.json"
    monkeypatch.setenv(VARIABLE, "0")
    with pytest.raises(UnsupportedError) as error:
        user_table()
    assert str(error.value) == (
        "a table with WSCHED_TUNED=0 is not supported; supported: another value, or --output"
    )


def test_without_platformdirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setitem(__import__("sys").modules, "platformdirs", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lookup(PROBLEM) is None
    with pytest.raises(UnsupportedError, match="without platformdirs"):
        user_table()
