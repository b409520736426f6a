"""Damaged tables and files of parameters: what is taken is legal, the rest is refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lowering.ground.errors import WschedError
from tests.choose.tuned.damage import damaged
from tests.choose.tuned.entries import PROBLEM, entry, problem
from tests.schedules import SCHEDULES, definition
from wsched.choose.presets import read_params
from wsched.choose.problem import demands
from wsched.choose.tuned.entry import Entry, EntryError
from wsched.choose.tuned.table import Table, TableError, read_table, table_text
from wsched.front.known import import_fusion
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.scheduler import plan_matmul

NAMES = sorted(SCHEDULES)


def proved(params: MatmulParams) -> None:
    """Parameters that were taken have a schedule that is proved."""
    assert plan_matmul(import_fusion(definition()), params).relations


def table(seed: int) -> str:
    """One of three entries."""
    several = (PROBLEM, problem(8192), problem(64, 128, 256))
    entries = [entry(p, NAMES[(seed + i) % len(NAMES)]) for i, p in enumerate(several)]
    return table_text(Table({e.problem: e.to_dict() for e in entries}))


@pytest.mark.parametrize("block", range(10))
def test_tables(block: int, tmp_path: Path) -> None:
    path, found = tmp_path / "tuned.json", {"refused": 0, "unread": 0, "ignored": 0, "taken": 0}
    for seed in range(block * 25, block * 25 + 25):
        path.write_bytes(damaged(table(seed), seed))
        try:
            read = read_table(path)
        except TableError as e:
            assert str(path) in str(e)
            found["refused"] += 1
            continue
        found["unread"] += len(read.unread)
        assert all(why for _, why in read.unread)
        for asked, data in read.entries.items():
            try:
                taken = Entry.of(asked, data)
            except EntryError as e:
                assert str(e)
                found["ignored"] += 1
                continue
            require_legal_for(demands(asked), taken.params)
            found["taken"] += 1
            if taken.params not in SCHEDULES.values():
                proved(taken.params)
        path.write_text(table_text(read), encoding="utf-8")
        assert read_table(path).entries.keys() == read.entries.keys()
    assert all(found.values()), found


@pytest.mark.parametrize("block", range(5))
def test_files_of_parameters(block: int, tmp_path: Path) -> None:
    path, taken, refused = tmp_path / "params.json", 0, 0
    for seed in range(block * 50, block * 50 + 50):
        params = SCHEDULES[NAMES[seed % len(NAMES)]]
        path.write_bytes(damaged(json.dumps(params.to_dict()), 2000 + seed))
        try:
            read = read_params(str(path))
            require_legal_for(demands(PROBLEM), read)
        except WschedError as e:
            assert str(e)
            refused += 1
            continue
        taken += 1
        if read not in SCHEDULES.values():
            proved(read)
    assert taken and refused
