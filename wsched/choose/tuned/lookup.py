"""Which schedule was measured to be the fastest for a problem: the user's table, then the shipped.

Where no table has a problem on its GPU, what was measured on a sister counts: one with as many
multiprocessors and the same target. An H100 SXM and an H200 are sisters, which differ in memory.

A table is read once in a process, when the first schedule is chosen. What is wrong with a table or
an entry gives one warning for each file, and the cost model goes on in its place.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from lowering.ground.errors import UnsupportedError
from lowering.ground.files import distrust
from wsched.choose.problem import Problem
from wsched.choose.tuned.entry import Entry, EntryError
from wsched.choose.tuned.table import Table, TableError, read_table
from wsched.schedule.matmul.k_order import fixed_k_order

__all__ = ["VARIABLE", "Hit", "forget", "lookup", "shipped_tables", "untrusted", "user_table"]

VARIABLE, OFF = "WSCHED_TUNED", "0"
"""The environment variable: the path of a table in place of the user's, or 0 for no tables."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry, and the table that has it.

    Args:
        entry: of the problem that was asked for.
        file: the table.
        gpu: that the times are of, by its name; another one than the problem's if it is a sister.
    """

    entry: Entry
    file: Path
    gpu: str

    @property
    def of_sister(self) -> bool:
        """Whether it was measured on another GPU than the problem's."""
        return self.gpu != self.entry.problem.gpu


def lookup(problem: Problem) -> Hit | None:
    """The entry of exactly this problem, or that of it on a sister; None if no table has one."""
    setting = os.environ.get(VARIABLE, "")
    return None if setting == OFF else _lookup(setting, problem)


def forget() -> None:
    """Read the tables again when the next schedule is chosen."""
    for kept in (_lookup, _by_sisters, _tables, _warn):
        kept.cache_clear()


def user_table() -> Path:
    """Where ``wsched tune`` writes: what ``WSCHED_TUNED`` says, or the user's data directory.

    Raises:
        UnsupportedError: the variable says that there are no tables; it is not set and platformdirs
            is not installed.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen == OFF:
        raise UnsupportedError(f"a table with {VARIABLE}={OFF}", "another value, or --output")
    if chosen:
        return Path(chosen)
    try:
        from platformdirs import user_data_dir
    except ImportError as e:
        raise UnsupportedError(
            "finding the data directory without platformdirs",
            f"platformdirs, or a file in {VARIABLE}",
            "Install platformdirs",
        ) from e
    return Path(user_data_dir("wsched")) / "tuned.json"


def shipped_tables() -> tuple[Path, ...]:
    """The tables that come with wsched."""
    return tuple(sorted(Path(__file__).parent.glob("*.json")))


@lru_cache(maxsize=4096)
def _lookup(setting: str, problem: Problem) -> Hit | None:
    """The hit; that of the plain problem serves a batch-invariant one if it keeps the promise."""
    found = _measured(setting, problem)
    if found is not None or not problem.batch_invariant:
        return found
    plain = _measured(setting, replace(problem, batch_invariant=False))
    if plain is None or not fixed_k_order(plain.entry.params):
        return None
    params = replace(plain.entry.params, batch_invariant=True)
    return replace(plain, entry=replace(plain.entry, problem=problem, params=params))


def _measured(setting: str, problem: Problem) -> Hit | None:
    """The problem's entry, on its own GPU or on the sister whose L2 is nearest to its."""
    for file, table in _tables(setting):
        if problem in table.entries and (hit := _hit(problem, file, problem, table)) is not None:
            return hit
    sisters = _by_sisters(setting).get(_anywhere(problem), ())
    for of, file, table in sorted(sisters, key=lambda s: abs(s[0].l2_bytes - problem.l2_bytes)):
        if of != problem and (hit := _hit(problem, file, of, table)) is not None:
            return hit
    return None


def _hit(problem: Problem, file: Path, of: Problem, table: Table) -> Hit | None:
    try:
        return Hit(Entry.of(problem, table.entries[of]), file, of.gpu)
    except EntryError as e:
        _warn(file, f"the entry for {problem.m}x{problem.n}x{problem.k} is ignored: {e}")
        return None


def _anywhere(problem: Problem) -> Problem:
    """The problem without what tells a GPU from its sisters."""
    return replace(problem, gpu="", l2_bytes=0)


@lru_cache(maxsize=8)
def _by_sisters(setting: str) -> dict[Problem, list[tuple[Problem, Path, Table]]]:
    """By what sisters share: the problems of entries, those of the first table in front."""
    found: dict[Problem, list[tuple[Problem, Path, Table]]] = {}
    for file, table in _tables(setting):
        for of in table.entries:
            found.setdefault(_anywhere(of), []).append((of, file, table))
    return found


@lru_cache(maxsize=8)
def _tables(setting: str) -> tuple[tuple[Path, Table], ...]:
    """The tables, those that count first in front; ``setting`` is that of the environment."""
    return tuple(_read())


def _read() -> Iterator[tuple[Path, Table]]:
    try:
        own: tuple[Path, ...] = (user_table(),)
    except UnsupportedError:
        own = ()
    for file in (*own, *shipped_tables()):
        if file in own and not file.exists():
            if os.environ.get(VARIABLE):
                _warn(file, f"{VARIABLE} names it, and there is no such file", "it counts as empty")
            continue
        if file in own and (why := untrusted(file)):
            _warn(file, f"the table is ignored: {why}")
            continue
        try:
            table = read_table(file)
        except TableError as e:
            _warn(file, f"the table is ignored: {e}")
            continue
        if table.unread:
            count, (_, why) = len(table.unread), table.unread[0]
            noun = "1 entry is" if count == 1 else f"{count} entries are"
            _warn(file, f"{noun} ignored: {why}")
        yield file, table


def untrusted(file: Path) -> str:
    """Why a table, or its folder, may be someone else's work; empty if it is the user's own."""
    for path in (file, file.parent):
        try:
            if why := distrust(path.stat()):
                return f"{path} {why}"
        except OSError:
            continue
    return ""


@lru_cache(maxsize=64)
def _warn(file: Path, what: str, instead: str = "the cost model chooses instead") -> None:
    text = f"wsched: {file}: {what}; {instead}. {VARIABLE}={OFF} ignores "
    warnings.warn(f"{text}all tables.", RuntimeWarning, stacklevel=5)
