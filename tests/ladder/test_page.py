"""``design/ladder.md`` has what the ladder is, made by ``wsched ladder --page``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wsched.ladder.climb import climb
from wsched.ladder.page import generated, with_generated
from wsched.ladder.rungs import RUNGS

PAGE = Path(__file__).resolve().parents[2] / "design" / "ladder.md"
COMMAND = "python -m wsched ladder --page design/ladder.md"


def parts() -> list[str]:
    return re.findall(r"<!-- (\w+) -->\n", PAGE.read_text(encoding="utf-8").replace("<!-- end", ""))


def test_every_rung_is_there() -> None:
    assert parts() == ["table", "waits", *(r.name for r in RUNGS), "choice"]


@pytest.mark.parametrize("name", [r.name for r in RUNGS])
def test_rungs_are_as_they_are_made(name: str) -> None:
    assert generated(name, climb()) in PAGE.read_text(encoding="utf-8"), COMMAND


@pytest.mark.slow
def test_tables_are_as_they_are_made() -> None:
    text, steps = PAGE.read_text(encoding="utf-8"), climb()
    assert with_generated(text, steps) == text, COMMAND


def test_what_is_not_generated_stays() -> None:
    page = "# A\n<!-- v2 -->\nold\n<!-- end -->\nbehind\n"
    made = with_generated(page, climb())
    assert made.startswith("# A\n<!-- v2 -->\nA slice") and made.endswith("<!-- end -->\nbehind\n")
    assert "old" not in made
