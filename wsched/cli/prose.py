"""Sentences on a terminal, or in a file: no wider than it, or 80 columns."""

from __future__ import annotations

import shutil
from textwrap import wrap

__all__ = ["prose"]


def prose(text: str) -> str:
    """A text of which lines that are too long go on below, further in; words stay whole."""
    columns = shutil.get_terminal_size().columns
    return "\n".join(_wrapped(line, columns) for line in text.split("\n"))


def _wrapped(line: str, columns: int) -> str:
    if len(line) <= columns:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    lines = wrap(
        line.strip(), columns, initial_indent=indent, subsequent_indent=f"{indent}    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(lines)
