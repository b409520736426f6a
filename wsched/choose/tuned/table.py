"""A table of measured schedules as a file: read, merged and replaced as a whole.

The form is in design/0015-tuning.md. Entries that this version does not understand are kept as
they are, so that two versions of wsched can share a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from lowering.ground.errors import WschedError
from lowering.ground.files import replace_file
from wsched.choose.problem import Problem
from wsched.choose.tuned.entry import Entry, EntryError, problem_from_dict

__all__ = [
    "SCHEMA", "Table", "TableError", "add_entries", "kept_text", "read_entries", "read_table",
    "table_text",
]  # fmt: skip

SCHEMA = "wsched.tuned/1"

LOCK_SECONDS = 60.0
"""How long to wait for another writer, who needs milliseconds."""


class TableError(WschedError):
    """A file that is no table of this version; it is neither read nor written."""


@dataclass(frozen=True, slots=True)
class Table:
    """What a file has.

    Args:
        entries: data of the entries by their problem, not yet looked at; see ``Entry.of``.
        unread: entries whose problem is not understood, and why.
    """

    entries: dict[Problem, dict[str, Any]] = field(default_factory=dict)
    unread: tuple[tuple[Any, str], ...] = ()


def read_table(path: Path) -> Table:
    """Read a file; a missing one is an empty table.

    Raises:
        TableError: it cannot be read, or is no table with this :data:`SCHEMA`.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Table()
    except _UNREADABLE as e:
        raise _unreadable(path, e) from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise TableError(f"{path} has schema {schema!r}, this version of wsched reads {SCHEMA!r}")
    if not isinstance(data.get("entries"), list):
        raise TableError(f"{path} has no list of entries")
    return _table(data["entries"])


def read_entries(path: Path, sizes: tuple[int, int, int]) -> Table:
    """The entries of one M, N, K of a file that is just as :func:`table_text` writes it, as those
    that are shipped are; nothing else is looked at, which is most of the time of a first choice.

    Raises:
        TableError: it cannot be read.
    """
    found, at = [], 0
    try:
        text = kept_text(path)
        wanted = '"problem": {{"m": {}, "n": {}, "k": {}, '.format(*sizes)
        while (at := text.find(wanted, at) + 1) > 0:
            found.append(json.JSONDecoder().raw_decode(text, text.rindex("{", 0, at))[0])
    except FileNotFoundError:
        return Table()
    except _UNREADABLE as e:
        raise _unreadable(path, e) from None
    return _table(found)


@lru_cache(maxsize=4)
def kept_text(path: Path) -> str:
    """A file's text, read once: a process may choose for many sizes."""
    return path.read_text(encoding="utf-8")


_UNREADABLE = (OSError, ValueError, RecursionError)


def _unreadable(path: Path, e: BaseException) -> TableError:
    why = (e.strerror if isinstance(e, OSError) else str(e)) or type(e).__name__
    return TableError(f"{path} cannot be read ({why})")


def _table(listed: list[Any]) -> Table:
    """The entries of a list that are understood, and the others."""
    entries: dict[Problem, dict[str, Any]] = {}
    unread = []
    for found in listed:
        try:
            if not isinstance(found, dict):
                raise EntryError(f"an entry is {found!r}, not a dict")
            entries[problem_from_dict(found.get("problem"))] = found
        except EntryError as e:
            unread.append((found, str(e)))
    return Table(entries, tuple(unread))


def add_entries(path: Path, made: Iterable[Entry]) -> None:
    """Merge entries into a file, beside other processes that do the same.

    Of two entries for a problem the later one stays, whichever was written first: times of
    different runs cannot be compared. The folder is made if need be.

    Raises:
        TableError: there is a file, and it is no table.
        OSError: it cannot be written (it is as it was), or another process keeps it locked.
    """
    from filelock import FileLock

    path = path.resolve()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    with FileLock(str(lock), timeout=LOCK_SECONDS):
        table = read_table(path)
        for entry in made:
            before = table.entries.get(entry.problem, {}).get("date")
            if not isinstance(before, str) or before <= entry.date:
                table.entries[entry.problem] = entry.to_dict()
        replace_file(path, table_text(table).encode(), mode=0o644)


def table_text(table: Table) -> str:
    """Return the file: entries sorted by device, types and sizes, a line for each parameter."""
    known = [_entry_text(table.entries[p]) for p in sorted(table.entries, key=_order)]
    unread = [f"  {json.dumps(data, sort_keys=True)}" for data, _ in table.unread]
    body = ",\n".join([*known, *unread])
    entries = f"[\n{body}\n ]" if body else "[]"
    return f'{{\n "schema": {json.dumps(SCHEMA)},\n "entries": {entries}\n}}\n'


def _entry_text(data: dict[str, Any]) -> str:
    lines = [f"   {json.dumps(name)}: {_value_text(name, value)}" for name, value in data.items()]
    return "  {\n" + ",\n".join(lines) + "\n  }"


def _value_text(name: str, value: Any) -> str:
    if name != "params" or not isinstance(value, dict):
        return json.dumps(value)
    lines = [f"    {json.dumps(key)}: {json.dumps(v)}" for key, v in value.items()]
    return "{\n" + ",\n".join(lines) + "\n   }"


def _order(problem: Problem) -> tuple[Any, ...]:
    """What is alike stands together; the text tells all others apart."""
    layout = (problem.m_major, problem.n_major, problem.batch_invariant)
    kind = (problem.gpu, problem.sms, problem.operand.name, *layout, problem.work)
    return (*kind, problem.m, problem.n, problem.k, str(problem))
