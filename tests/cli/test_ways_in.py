"""What every command line has: short help, completion, a definition from stdin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from wsched.cli.app import app
from wsched.cli.entry import main
from wsched.cli.options import text_of

SMALL = ["--shape", "64x128x64"]

CUT = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    h = fd.ops.relu(fd.ops.linear(x, w))
    fd.add_output(fd.ops.linear(h, w))
"""
"""Two kernels."""


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


def test_a_definition_from_a_pipe(file: Path) -> None:
    """As shells make one of ``<(…)``."""
    read, write = os.pipe()
    os.write(write, file.read_bytes())
    os.close(write)
    try:
        assert printed("dump", f"/dev/fd/{read}", *SMALL) == printed("dump", str(file), *SMALL)
    finally:
        os.close(read)


def test_a_closed_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(typer.BadParameter, match="-: standard input is closed"):
        text_of(Path("-"))


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


@pytest.mark.slow
def test_the_command_line_starts_without_torch() -> None:
    """Which takes seconds to load, and cannot be where there is no working directory."""
    code = "import sys, wsched.cli.app; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("command", [["run", "--sms", "4"], ["trace", "--predict"]])
def test_what_is_more_than_one_kernel_is_told_where_to_go(
    command: list[str], tmp_path: Path
) -> None:
    """It is refused by what looks at one kernel, and yet it is supported."""
    path = tmp_path / "two.py"
    path.write_text(CUT)
    refused = CliRunner().invoke(app, [*command, str(path)])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.endswith(". `wsched explain` says which way it goes otherwise\n")
    assert CliRunner().invoke(app, ["explain", str(path)]).exit_code == 0
    path.write_text("def f(fd: FusionDefinition):\n    fd.add_output(open('x'))\n")
    unread = CliRunner().invoke(app, [*command, str(path)])
    assert unread.exit_code == 2 and "wsched explain" not in unread.stderr
