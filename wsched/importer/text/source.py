"""The text of a definition: parsed by Python's own parser, refused by line."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import Enum

from lowering.ground.errors import UnsupportedError

__all__ = ["SUPPORTED", "Fault", "Source"]

SUPPORTED = (
    "what a definition is written with: fd.define_tensor, fd.define_scalar, fd.define_vector, "
    "fd.from_pytorch, fd.ops.NAME and fd.add_output on literals and names defined above"
)

_SHOWN = 160
"""Characters of a line that a message shows."""


_ODD = re.compile("[\0\ud800-\udfff]")
"""Characters that no text in UTF-8 has, and NUL."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a text is no Python.

    Args:
        line: from 1.
        kind: what is wrong there.
        character: the one that is.
    """

    class Kind(Enum):
        """A character that no text has, too deep a nesting, too many digits, or anything else."""

        CHARACTER, DEPTH, DIGITS, OTHER = range(4)

    line: int
    kind: Kind
    character: str = ""


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
        found = self.read()
        if not isinstance(found, Fault):
            return found
        line, shown = found.line, self.shown(found.line)
        match found.kind:
            case Fault.Kind.CHARACTER:
                what = f"line {line}: the character {found.character} in `{shown}`"
                raise UnsupportedError(what, "text in UTF-8 without NUL")
            case Fault.Kind.DEPTH:
                what = f"line {line}: the nesting of `{shown}`"
                raise UnsupportedError(what, "expressions that Python's parser takes")
        raise UnsupportedError(f"line {line}: `{shown}`", "Python")

    def read(self) -> ast.Module | Fault:
        """The syntax tree, or why Python has none: for who raises an error of its own."""
        for number, line in enumerate(self.lines, 1):
            if odd := _ODD.search(line):
                name = "NUL" if odd[0] == "\0" else ascii(odd[0])
                return Fault(number, Fault.Kind.CHARACTER, name)
        try:
            return ast.parse(self.text)
        except SyntaxError as e:
            deep, long = "too many nested" in e.msg, "limit" in e.msg
            kind = Fault.Kind.DEPTH if deep else Fault.Kind.DIGITS if long else Fault.Kind.OTHER
            return Fault(min(max(e.lineno or 1, 1), len(self.lines)), kind)
        except (MemoryError, RecursionError, ValueError):
            longest = max(range(len(self.lines)), key=lambda i: len(self.lines[i]))
            return Fault(longest + 1, Fault.Kind.DEPTH)

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
