"""``WSCHED_LOG=1``: a line for each decision while a program runs, and counters when it ends.

Decisions are made once for each class of calls, so nothing of this is on the path of a call that
has been seen before.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections import Counter
from collections.abc import Callable
from time import perf_counter

from lowering.ground.locks import Lock

__all__ = ["VARIABLE", "log"]

VARIABLE = "WSCHED_LOG"
"""The environment variable: 1 for standard error, or a file, which is appended to; else nothing."""

_lock = Lock()
_counts: Counter[str] = Counter()
_began = perf_counter()


def log(kind: str, text: Callable[[], str]) -> None:
    """Tell a decision, if anybody wants to know.

    Args:
        kind: what was decided, a word or two, which the counters count.
        text: makes the rest of the line; not called where nobody wants it.
    """
    setting = os.environ.get(VARIABLE, "").strip()
    if setting in ("", "0"):
        return
    line = f"wsched {perf_counter() - _began:8.3f} s  {kind}: {text()}"
    with _lock:
        if not _counts:
            atexit.register(_at_exit)
        _counts[kind] += 1
        _write(setting, line)


def _at_exit() -> None:
    """Write how many decisions of each kind there were."""
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(_counts.items()))
    _write(os.environ.get(VARIABLE, "1"), f"wsched {perf_counter() - _began:8.3f} s  end: {found}")


def _write(setting: str, line: str) -> None:
    """Write a line; a file that cannot be written is told of, and the line goes to its place."""
    if setting != "1":
        try:
            with open(setting, "a", encoding="utf-8") as file:
                file.write(f"{line}\n")
            return
        except OSError as e:
            line = f"wsched: {VARIABLE}={setting}: {e.strerror}\n{line}"
    print(line, file=sys.stderr)
