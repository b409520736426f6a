"""Which schedule was measured to be the fastest for a problem: the user's table, then the shipped.

Where no table has a problem on its GPU, what was measured on a sister counts: one with as many
multiprocessors and the same target. An H100 SXM and an H200 are sisters, which differ in memory.

A table is read once in a process, when the first schedule is chosen; of those that are shipped, on
which tests have looked, only entries of the sizes that are asked for. What is wrong with a table or
an entry gives one warning for each file, and the cost model goes on in its place.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from lowering.ground.errors import UnsupportedError
from lowering.ground.files import distrust
from wsched.choose.problem import Problem
from wsched.choose.tuned.entry import Entry, EntryError
from wsched.choose.tuned.table import Table, TableError, kept_text, read_entries, read_table
from wsched.schedule.matmul.k_order import fixed_k_order

__all__ = [
    "VARIABLE", "Hit", "forget", "lookup", "lookup_product", "shipped_tables", "untrusted",
    "user_table",
]  # fmt: skip

Sizes = tuple[int, int, int]

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


def lookup_product(problem: Problem) -> Hit | None:
    """An entry of the same product on the same GPU, whatever its epilogue: that with the least of
    one; None if no table has any.
    """
    setting = os.environ.get(VARIABLE, "")
    return None if setting == OFF else _lookup_product(setting, problem.bare)


def forget() -> None:
    """Read the tables again when the next schedule is chosen."""
    for kept in (_lookup, _lookup_product, _own, kept_text, _warn):
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


@lru_cache(maxsize=4096)
def _lookup_product(setting: str, bare: Problem) -> Hit | None:
    tables = _tables(setting, (bare.m, bare.n, bare.k))
    alike = [(of, *found) for found in tables for of in found[1].entries if of.bare == bare]
    for of, file, table in sorted(alike, key=lambda x: (x[0].products, x[0].work)):
        if (hit := _hit(of, file, of, table)) is not None:
            return hit
    return None


def _measured(setting: str, problem: Problem) -> Hit | None:
    """The problem's entry, on its own GPU or on the sister whose L2 is nearest to its."""
    tables = _tables(setting, (problem.m, problem.n, problem.k))
    for file, table in tables:
        if problem in table.entries and (hit := _hit(problem, file, problem, table)) is not None:
            return hit
    alike = _anywhere(problem)
    others = [(of, *found) for found in tables for of in found[1].entries if of != problem]
    sisters = [found for found in others if _anywhere(found[0]) == alike]
    for of, file, table in sorted(sisters, key=lambda s: abs(s[0].l2_bytes - problem.l2_bytes)):
        if (hit := _hit(problem, file, of, table)) is not None:
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


def _tables(setting: str, sizes: Sizes) -> list[tuple[Path, Table]]:
    """What tables have for an M, N, K, those that count first in front; ``setting`` is that of the
    environment.
    """
    found = []
    for file, whole in _own(setting):
        kept = {p: data for p, data in whole.entries.items() if (p.m, p.n, p.k) == sizes}
        found.append((file, Table(kept)))
    for file in shipped_tables():
        try:
            found.append((file, read_entries(file, sizes)))
        except TableError as e:
            _warn(file, f"the table is ignored: {e}")
    return found


@lru_cache(maxsize=8)
def _own(setting: str) -> tuple[tuple[Path, Table], ...]:
    """The user's table, if there is one that can be believed."""
    try:
        file = user_table()
    except UnsupportedError:
        return ()
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        if setting:
            _warn(file, f"{VARIABLE} names it, and there is no such file", "it counts as empty")
        return ()
    except OSError as e:  # a home that others own, say, or a name that is too long
        if setting:
            _warn(file, f"the table is ignored: {e.strerror}")
        return ()
    if why := untrusted(file):
        _warn(file, f"the table is ignored: {why}")
        return ()
    try:
        table = read_table(file)
    except TableError as e:
        _warn(file, f"the table is ignored: {e}")
        return ()
    if table.unread:
        count, (_, why) = len(table.unread), table.unread[0]
        noun = "1 entry is" if count == 1 else f"{count} entries are"
        _warn(file, f"{noun} ignored: {why}")
    return ((file, table),)


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
