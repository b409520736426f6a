"""What every command line has: short help, completion, a definition from stdin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wsched.cli.app import app
from wsched.cli.entry import main

SMALL = ["--shape", "64x128x64"]


def printed(*words: str) -> str:
    shown = CliRunner().invoke(app, list(words))
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_short_help() -> None:
    assert printed("-h") == printed("--help")
    assert printed("dump", "-h") == printed("dump", "--help")


def test_completion_is_offered() -> None:
    assert "--show-completion" in printed("-h")


def test_the_command_has_one_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also as ``python -m wsched``: a script that completes that is none that a shell takes."""
    monkeypatch.setattr(sys, "argv", ["wsched/__main__.py", "-h"])
    with pytest.raises(SystemExit):
        main()
    assert "Usage: wsched [OPTIONS] COMMAND" in capsys.readouterr().out
    monkeypatch.setenv("_WSCHED_COMPLETE", "source_bash")
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.rstrip().endswith(" _wsched_completion wsched")


def test_a_definition_from_stdin(file: Path) -> None:
    shown = CliRunner().invoke(app, ["dump", "-", *SMALL], input=file.read_text())
    assert (shown.exit_code, shown.stdout) == (0, printed("dump", str(file), *SMALL))


def test_an_empty_stdin() -> None:
    shown = CliRunner().invoke(app, ["explain", "-"], input="")
    assert shown.exit_code == 2 and shown.stderr.startswith("-: ")


def test_an_interrupt_while_modules_are_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "wsched.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "wsched.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr().err) == (130, "Aborted.\n")
