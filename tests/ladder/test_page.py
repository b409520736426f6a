"""Pages of ``design/`` have what the ladder is, made by ``wsched ladder --page``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lowering.target.targets import named
from wsched.ladder.climb import climb
from wsched.ladder.page import generated, with_generated
from wsched.ladder.rungs import RUNGS

DESIGN = Path(__file__).resolve().parents[2] / "design"
PAGES = {"sm_90a": "ladder.md", "sm_100a": "ladder-sm_100a.md"}
"""By target."""


def page(arch: str) -> str:
    return (DESIGN / PAGES[arch]).read_text(encoding="utf-8")


def command(arch: str) -> str:
    return f"python -m wsched ladder --target {arch} --page design/{PAGES[arch]}"


@pytest.mark.parametrize("arch", PAGES)
def test_every_rung_is_there(arch: str) -> None:
    found = re.findall(r"<!-- (\w+) -->\n", page(arch).replace("<!-- end", ""))
    choice = ["choice"] * (arch == "sm_90a")
    assert found == ["table", "waits", *(r.name for r in RUNGS), *choice]


@pytest.mark.parametrize("arch", PAGES)
@pytest.mark.parametrize("name", [r.name for r in RUNGS])
def test_rungs_are_as_they_are_made(name: str, arch: str) -> None:
    assert generated(name, climb(named(arch))) in page(arch), command(arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", PAGES)
def test_tables_are_as_they_are_made(arch: str) -> None:
    steps = climb(named(arch))
    assert with_generated(page(arch), steps) == page(arch), command(arch)


def test_what_is_not_generated_stays() -> None:
    text = "# A\n<!-- v2 -->\nold\n<!-- end -->\nbehind\n"
    made = with_generated(text, climb())
    assert made.startswith("# A\n<!-- v2 -->\nA slice") and made.endswith("<!-- end -->\nbehind\n")
    assert "old" not in made
