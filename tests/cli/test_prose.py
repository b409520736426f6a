"""Sentences that commands print: wrapped at the terminal's width, 80 columns in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from wsched.cli.app import app
from wsched.cli.prose import prose


def test_long_lines_go_on_further_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    text = f"short\n  {'abc def ' * 5}\n\n{'x' * 40} y-z\n"
    assert prose(text).split("\n") == [
        "short",
        "  abc def abc def abc def abc",
        "      def abc def",
        "",
        "x" * 40,
        "    y-z",
        "",
    ]
    monkeypatch.setenv("COLUMNS", "200")
    assert prose(text) == text


def test_explain_fits_into_80_columns(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for words that are longer, and loops, which are no sentences."""
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = CliRunner().invoke(app, ["explain", str(file), "--shape", "4096x4096x4096"])
    choices, _, loops = shown.stdout.partition("\nload T")
    assert shown.exit_code == 0 and "cluster_dims = 1x1" in choices and loops
    assert [x for x in choices.splitlines() if len(x) > 80 and " " in x.strip()] == []
