"""How far a command is: a line on the terminal once it takes longer than two seconds."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import perf_counter
from typing import TextIO

from lowering.ground.progress import What, told

__all__ = ["AFTER", "EVERY", "shown", "wanted"]

AFTER, EVERY = 2.0, 0.2
"""Seconds before the line appears, and between two looks at how far the work is."""

_ERASE = "\r\x1b[K"


def wanted(arguments: Sequence[str]) -> bool:
    """Whether a command with these arguments is one that somebody looks on at: not what writes JSON
    or into a pipe.
    """
    return (
        "--json" not in arguments
        and sys.stderr.isatty()
        and os.environ.get("TERM") != "dumb"
        and (sys.stdout.isatty() or not _is_pipe(sys.stdout))
    )


def _is_pipe(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except OSError:
        return True


@contextmanager
def shown(stream: TextIO) -> Iterator[None]:
    """Show on a terminal what is done inside, while it is done: the line is gone when the outermost
    work is over, so that results may be printed behind it.
    """
    line = _Line(stream)
    watcher = Thread(target=line.watch, name="wsched-progress", daemon=True)
    watcher.start()
    try:
        with told(line):
            yield
    finally:
        line.over.set()
        watcher.join()


class _Line:
    """The line, and the work that it tells of."""

    def __init__(self, stream: TextIO) -> None:
        self.over = Event()
        self._stream = stream
        self._began = perf_counter()
        self._stack: list[What] = []
        self._there = False
        self._lock = Lock()

    def begins(self, what: What) -> None:
        with self._lock:
            self._stack.append(what)

    def ends(self) -> None:
        with self._lock:
            self._stack.pop()
            if self._there and not self._stack:
                self._write(_ERASE)
                self._there = False

    def watch(self) -> None:
        """Write the line anew from time to time, until all is over."""
        wait = AFTER
        while not self.over.wait(wait):
            wait = EVERY
            with self._lock:
                if self._stack:
                    texts = [what if isinstance(what, str) else what() for what in self._stack]
                    text = f"{perf_counter() - self._began:.0f} s  {', '.join(texts)}"
                    # A line that is full would wrap, and what wraps is not erased.
                    self._write(_ERASE + text[: shutil.get_terminal_size().columns - 1])
                    self._there = True

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal is gone
            self.over.set()
