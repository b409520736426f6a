"""What a command prints reaches whoever reads it, or nobody: neither is an error.

A reader that has enough, ``head`` say, closes the pipe. The command goes on, so that its files are
written and its exit status is what it found out. And a character that the encoding of a terminal
lacks is a question mark.
"""

from __future__ import annotations

import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any

__all__ = ["lenient"]


class _Unread(FileIO):
    """A file of which the end may be closed by who reads it: what is written then is lost."""

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            return memoryview(data).nbytes  # type: ignore[arg-type]


def lenient() -> None:
    """Have standard output and standard error be so; what is no file of the process stays."""
    sys.stdout, sys.stderr = _lenient(sys.stdout), _lenient(sys.stderr)


def _lenient(stream: Any) -> Any:
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # python -u has no buffer in between
    if not (isinstance(stream, TextIOWrapper) and isinstance(raw, FileIO)):
        return stream
    stream.flush()
    unread = _Unread(stream.fileno(), "wb", closefd=False)
    return TextIOWrapper(
        unread if buffer is raw else BufferedWriter(unread),
        encoding=stream.encoding,
        errors="replace" if stream.errors == "strict" else stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
