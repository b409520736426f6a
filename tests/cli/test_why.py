from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.losses.test_why import CUT
from tests.schedules import SCHEDULES, definition
from wsched import Schedule
from wsched.cli import app as cli
from wsched.cli.why import _is_cut

ASKED = ("--shape", "512x512x256", "--params", "cooperative")


def run(*arguments: object) -> str:
    result = CliRunner().invoke(cli.app, ["why", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.usefixtures("plain")
def test_text_and_picture(file: Path, tmp_path: Path) -> None:
    png = tmp_path / "why.png"
    text = run(file, *ASKED, "-o", png)
    assert text.startswith("512x512x256 on NVIDIA H200, 132 multiprocessors\n  matmul_")
    assert "From the roofline to the prediction" in text and "What would mend" in text
    assert png.read_bytes().startswith(b"\x89PNG")


def test_numbers_have_no_colours(file: Path) -> None:
    """On a terminal that has them; titles are bold."""
    words = ["why", str(file), *ASKED]
    result = CliRunner().invoke(cli.app, words, env={"FORCE_COLOR": "1", "TERM": "xterm-256color"})
    assert result.exit_code == 0, result.output
    assert "\x1b[1m" in result.stdout
    assert not re.search(r"\x1b\[[\d;]*3\dm", result.stdout)


def test_json_beside_a_saved_time_line(file: Path, tmp_path: Path) -> None:
    line = tmp_path / "t.json"
    saved = CliRunner().invoke(
        cli.app, ["trace", str(file), *ASKED, "--predict", "--json", str(line)]
    )
    assert saved.exit_code == 0, saved.output
    found = json.loads(run(file, *ASKED, "--json", "--measured", line))
    assert found["problem"] == "512x512x256" and found["gpu"] == "NVIDIA H200"
    assert max(abs(p["difference"] or 0) for p in found["measured"]) < 1e-9


@pytest.mark.slow
def test_a_definition_of_several_kernels(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(CUT)
    found = json.loads(run(file, "--json"))
    assert [x["problem"] for x in found] == ["512x384x256", "512x128x384"]
    for option, value, text in (
        ("-o", tmp_path / "why.png", "a picture is of a single kernel"),
        ("--shape", "64x64x64", "which fd.ops.linear makes, is not supported"),
    ):
        result = CliRunner().invoke(cli.app, ["why", str(file), option, str(value)])
        assert result.exit_code == 2
        assert text in " ".join(re.sub(r"[│╭╮╰╯─|]", " ", result.stderr).split())


def test_what_is_no_single_kernel() -> None:
    schedule = Schedule.of(definition(), SCHEDULES["coop_128x128"])
    assert [_is_cut(x) for x in (definition(), CUT, schedule)] == [False, True, False]


def test_an_operation_that_nobody_knows(file: Path) -> None:
    """Said as explain says it, not as what cannot be cut behind it."""
    file.write_text(file.read_text().replace("ops.linear", "ops.lineer"))
    told = {
        command: CliRunner().invoke(cli.app, [command, str(file)]).stderr
        for command in ("explain", "run", "why", "explore")
    }
    assert set(told.values()) == {
        f"{file}: line 4: the unknown operation fd.ops.lineer is not supported; supported: "
        "operations of nvFuser. Did you mean fd.ops.linear?\n"
    }


def test_errors(file: Path, tmp_path: Path) -> None:
    for arguments, text in (
        (["--gpu", "V100"], "gpu is 'V100'; known are H200, H200 NVL, H100, H100 PCIe"),
        (["--gpu", "B200"], f"{file}: why on sm_100a is not supported; supported: sm_90a"),
        (["--params", "pipelined"], f"{file}: why of a schedule that is not warp-specialized"),
        (["--measured", str(tmp_path / "no.json")], "No such file or directory"),
        (["-o", str(tmp_path / "no" / "why.png")], "no such folder"),
        (["-o", str(tmp_path)], "a folder, where a file is to be"),
    ):
        result = CliRunner().invoke(cli.app, ["why", str(file), *arguments])
        assert result.exit_code == 2, result.output
        assert text in " ".join(re.sub(r"[│╭╮╰╯─|]", " ", result.stderr).split())
