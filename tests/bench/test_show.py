"""Tables in narrow terminals, wide ones, and files."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from wsched.bench.method.show import show_table

NAME = "coop_128x256x64_s4_c2x1_rows_grouped_by_8"
ROWS = [("8192, 8192, 8192", NAME, "1234.5", "0.987"), ("16, 4096, 4096", "the choice", "7.1", "–")]


def made(width: int, terminal: bool, columns: int = 1) -> str:
    table = Table("M, N, K", *["choice"] * columns, "measured µs", "best/choice", title="a title")
    for at in (0, columns + 1, columns + 2):
        table.columns[at].justify = "right"
    for shape, name, us, ratio in ROWS:
        table.add_row(shape, *[name] * columns, us, ratio)
    out = StringIO()
    show_table(table, Console(file=out, width=width, force_terminal=terminal, no_color=True))
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_terminal(width: int) -> None:
    text = made(width, True)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in text
    for row in ROWS:
        (line,) = (x for x in lines if row[0] in x)
        assert row[2] in line and row[3] in line
    folded = "".join(line.split("│")[2].strip() for line in lines if line.count("│") == 5)
    assert NAME in folded.replace("the choice", "")


def test_a_file_has_whole_lines() -> None:
    (line,) = (x for x in made(80, False, 3).splitlines() if "8192, 8192" in x)
    assert line.count(NAME) == 3 and "1234.5" in line and "0.987" in line


def test_what_does_not_fit_at_all_runs_on() -> None:
    text = made(80, True, 6)
    assert "…" not in text
    for row in ROWS:
        assert any(all(x in line for x in (row[0], row[2], row[3])) for line in text.splitlines())


def test_an_empty_table() -> None:
    out = StringIO()
    show_table(Table("one", "two"), Console(file=out, width=80))
    assert "one" in out.getvalue()
