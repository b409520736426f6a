from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wsched.cli import app as cli
from wsched.cli import trace as command

pytest.importorskip("torch")


def test_table_and_files(file: Path, tmp_path: Path) -> None:
    json_path, png = tmp_path / "t.json", tmp_path / "t.png"
    arguments = ["trace", file, "--shape", "512x512x128", "--params", "ping-pong"]
    arguments += ["--json", json_path, "--plot", png]
    result = CliRunner().invoke(cli.app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"matmul_\w+_pingpong_\w+_traced: 4 CTAs, \d+ steps", lines[0])
    assert lines[1].split()[-7:] == [
        "load", "turn", "main_loop", "epilogue", "store_wait", "drain", "other",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[2:-3]] == ["compute[0]", "compute[1]", "load[0]"]
    assert lines[-3].endswith(" % of the epilogue under another group's main loop")
    assert lines[-2:] == [
        "  planned for 132 multiprocessors",
        "  run by the machine model, which has 4 multiprocessors",
    ]
    assert json.loads(json_path.read_text())["otherData"]["unit"] == "steps"
    assert png.read_bytes().startswith(b"\x89PNG")


def test_where_nothing_can_be_written(file: Path, tmp_path: Path) -> None:
    arguments = ["trace", str(file), "--shape", "64x64x64", "--json", str(tmp_path)]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 2
    text = " ".join(re.sub(r"[│╭╮╰╯─|]", " ", result.stderr).split())
    assert "Invalid value for --json:" in text and "a folder, where a file is to be" in text


def test_files_that_cannot_be_written(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Former ones are as they were."""

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    asked = ["trace", str(file), "--shape", "512x512x128", "--params", "ping-pong", "--predict"]
    for option in ("--json", "--plot"):
        path = tmp_path / "t"
        path.write_text("before")
        result = CliRunner().invoke(cli.app, [*asked, option, str(path)])
        said = " ".join(re.sub(r"[│╭╮╰╯─|]", " ", result.stderr).split())
        assert result.exit_code == 2 and "No space left on device" in said
        assert path.read_text() == "before"


def test_without_torch(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    result = CliRunner().invoke(cli.app, ["trace", str(file)])
    assert result.exit_code == 2
    assert result.stderr == (
        "tracing without torch is not supported; supported: torch tensors. Install torch\n"
    )


def told(*arguments: object) -> str:
    result = CliRunner().invoke(cli.app, ["trace", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_predicted(file: Path, tmp_path: Path) -> None:
    """In every form, and what was saved stands beside what is predicted as if it were measured."""
    path, png = tmp_path / "t.json", tmp_path / "t.png"
    asked = [file, "--shape", "512x512x128", "--params", "ping-pong", "--predict"]
    lines = told(*asked, "--json", path, "--plot", png).splitlines()
    assert re.fullmatch(r"matmul_\w+_pingpong_\w+_traced: 1 CTAs, \d+ ns", lines[0])
    assert lines[-3:] == [
        "  predicted at 1.904 GHz: CTA 0 of 16, on an SM", "  planned for 132 multiprocessors",
        "  of one launch on a GPU that has rested: what the power limit takes is in wsched why",
    ]  # fmt: skip
    data = json.loads(path.read_text())["otherData"]
    assert data["unit"] == "ns" and data["about"].startswith("predicted at")
    assert png.read_bytes().startswith(b"\x89PNG")
    both = tmp_path / "o.json"
    phases = told(*asked, "--measured", path, "--json", both)
    assert "all cta" in phases and "the model is wrong" not in phases
    found = json.loads(both.read_text())["otherData"]["phases"]
    assert max(abs(p["difference"] or 0) for p in found) < 1e-9


@pytest.mark.parametrize("option", ["--json", "--plot"])
def test_a_folder_that_is_not_there(file: Path, tmp_path: Path, option: str) -> None:
    """Said before anything runs."""
    words = ["trace", str(file), option, str(tmp_path / "none" / "t")]
    result = CliRunner().invoke(cli.app, words)
    assert result.exit_code == 2 and result.stdout == ""
    assert f"value for {option}: " in result.stderr and "no such folder" in " ".join(
        re.sub(r"[│╭╮╰╯─|]", " ", result.stderr).split()
    )


def test_measured_asks_for_a_prediction(file: Path, tmp_path: Path) -> None:
    for arguments, text in (
        (
            ["--measured", tmp_path / "t.json"],
            "value for --measured: is shown beside a prediction; give --predict, too",
        ),
        (["--predict", "--measured", tmp_path / "t.json"], "No such file or directory"),
    ):
        result = CliRunner().invoke(cli.app, ["trace", str(file), *map(str, arguments)])
        assert result.exit_code == 2
        assert text in " ".join(re.sub(r"[│╭╮╰╯─|]", " ", result.stderr).split())
