"""The text of a definition: parsed by Python's own parser, refused by line."""

from __future__ import annotations

import ast
import re

from lowering.ground.errors import UnsupportedError

__all__ = ["SUPPORTED", "Source"]

SUPPORTED = (
    "what a definition is written with: fd.define_tensor, fd.define_scalar, fd.define_vector, "
    "fd.from_pytorch, fd.ops.NAME and fd.add_output on literals and names defined above"
)

_SHOWN = 160
"""Characters of a line that a message shows."""


_ODD = re.compile("[\0\ud800-\udfff]")
"""Characters that no text in UTF-8 has, and NUL."""


class Source:
    """A text and its lines as Python counts them.

    Args:
        text: a Python text; a byte order mark in front is passed over.
    """

    def __init__(self, text: str) -> None:
        self.text = text.removeprefix("\ufeff")
        self.lines = re.split(r"\r\n|\r|\n", self.text)

    def parse(self) -> ast.Module:
        """The syntax tree.

        Raises:
            UnsupportedError: the text is no Python, or nested deeper than Python's parser goes.
        """
        if (odd := self.odd()) is not None:
            number, name = odd
            raise UnsupportedError(
                f"line {number}: the character {name} in `{self.shown(number)}`",
                "text in UTF-8 without NUL",
            )
        try:
            return ast.parse(self.text)
        except SyntaxError as e:
            number = min(max(e.lineno or 1, 1), len(self.lines))
            if "too many nested" in e.msg:
                raise self._too_deep(number) from None
            raise UnsupportedError(f"line {number}: `{self.shown(number)}`", "Python") from None
        except (MemoryError, RecursionError, ValueError):
            longest = max(range(len(self.lines)), key=lambda i: len(self.lines[i]))
            raise self._too_deep(longest + 1) from None

    def odd(self) -> tuple[int, str] | None:
        """The line of the first character that Python does not read, from 1, and what it is; None
        where there is none.
        """
        for number, line in enumerate(self.lines, 1):
            if found := _ODD.search(line):
                return number, "NUL" if found[0] == "\0" else ascii(found[0])
        return None

    def _too_deep(self, number: int) -> UnsupportedError:
        """The error for a line, from 1, that is nested too deeply."""
        return UnsupportedError(
            f"line {number}: the nesting of `{self.shown(number)}`",
            "expressions that Python's parser takes",
        )

    def shown(self, number: int) -> str:
        """A line, from 1, as a message has it: without indentation, cut where it is long, and with
        nothing that a terminal obeys.
        """
        line = self.lines[number - 1].strip().replace("\0", "\\0")
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
        return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."

    def text_of(self, e: ast.expr) -> str:
        """An expression as the text has it, on one line."""
        first, last = e.lineno - 1, (e.end_lineno or e.lineno) - 1
        lines = [line.encode("utf-8", "replace") for line in self.lines[first : last + 1]]
        lines[-1] = lines[-1][: e.end_col_offset]
        lines[0] = lines[0][e.col_offset :]
        return " ".join(line.decode("utf-8", "replace").strip() for line in lines)

    def refusal(
        self, at: ast.AST, supported: str = SUPPORTED, what: str = "", hint: str = ""
    ) -> UnsupportedError:
        """The error for a piece of the text; ``what`` names it where the line has several."""
        number = getattr(at, "lineno", 1)
        name = f"{what} in " if what else ""
        return UnsupportedError(f"line {number}: {name}`{self.shown(number)}`", supported, hint)
