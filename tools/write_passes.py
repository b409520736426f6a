"""Writes the table of passes in design/0003-passes.md, from the passes' own docstrings.

The first paragraph of a pass's file says what it does, the last one where it stands and why:
``After ``a`` (reason), before ``b``.`` Names behind *after* stand earlier in the list, names behind
*before* later; a test holds them to it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from passes.pipeline import PASSES  # noqa: E402

PAGE = ROOT / "design" / "0003-passes.md"
HEAD = "| # | pass | what it does | why here |\n| --- | --- | --- | --- |\n"


def paragraphs(run: Callable[..., object]) -> list[str]:
    """The docstring of the pass's file, a line a paragraph."""
    text = sys.modules[run.__module__].__doc__ or ""
    return [" ".join(p.split()) for p in text.strip().split("\n\n")]


def table() -> str:
    """A row for each pass, in the order in which they run."""
    rows = []
    for number, run in enumerate(PASSES, 1):
        what, *_, where = paragraphs(run)
        cells = (c.removesuffix(".").replace("``", "`").replace("|", "\\|") for c in (what, where))
        rows.append(f"| {number} | `{run.__name__}` | {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)


def places(run: Callable[..., object]) -> Iterator[tuple[str, str]]:
    """(``after`` or ``before``, pass) for each pass that the place of ``run`` names."""
    names, side = {p.__name__ for p in PASSES}, ""
    for word in re.findall(r"[Aa]fter\b|[Bb]efore\b|``\w+``|\.\s", paragraphs(run)[-1]):
        if not word.startswith("`"):
            side = word.strip(". ").lower()
        elif side and word.strip("`") in names:
            yield side, word.strip("`")


def written(page: str) -> str:
    """The note with its table made anew.

    Raises:
        ValueError: it has no such table.
    """
    begin = page.index(HEAD)
    end = page.index("\n\n", begin) + 1
    return page[:begin] + table() + page[end:]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
