"""The command ``wsched ladder``: a rung, the table, JSON, pictures, refusals."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from wsched.choose.gpus import GPUS
from wsched.cli.app import app
from wsched.cli.ladder_choice import _table
from wsched.ladder.choice import Turn
from wsched.schedule.matmul.params import MatmulParams


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["ladder", *map(str, arguments)])


@pytest.mark.slow
def test_a_rung() -> None:
    result = invoke("v4", "--kernel")
    assert (result.exit_code, result.stderr) == (0, "")
    text = result.stdout
    assert text.startswith("v4: TMA copies, in both directions\ncopies: ")
    assert "+s[A, B].cache_after(CpAsyncBulkTensorTile)" in text
    assert "+  tensormap T0: bf16[M, K] box 128x64" in text
    assert "predicted" in text and "data: waits until a slice has come" in text


@pytest.mark.slow
def test_json() -> None:
    (found,) = json.loads(invoke("v5", "--json", "--shape", "8192x8192x8192").stdout)
    assert (found["rung"], found["decision"]) == ("v5", "stages: 1 → 2")
    assert found["measured_us"] is None and found["predicted_tflops"] > 100


@pytest.mark.slow
def test_another_target() -> None:
    text = " ".join(invoke("v4", "v9", "--target", "sm_100a").stdout.split())
    assert "T4 = mma(T6, T7)" in text and "+s[box].cache_before(StMatrix)" in text
    assert "cluster: 1 → 2 Two CTAs whose tiles lie above one another multiply together" in text
    assert "TFLOP/s" not in text and "not measured: no such GPU" in text


@pytest.mark.slow
def test_tables_fit_into_80_columns(measured: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was measured, too: no word of a decision or of a heading is cut off."""
    monkeypatch.setenv("COLUMNS", "80")
    text = invoke("v6", "v10").stdout.partition("4096x4096x4096, bf16")[2]
    assert measured == ["v6", "v10"] and max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    words = "multiprocessor, registers predicted measured v10 compute[1] others"
    assert set(words.split()) <= set(text.split())


def test_to_the_choice() -> None:
    text = invoke("--to-choice").stdout
    assert "the last rung" in text and "cluster_dims.m: 2 → 1" in text and "1.000" in text
    assert "measured" not in text
    found = json.loads(invoke("--to-choice", "--json").stdout)
    assert found[0]["decision"] == "" and found[-1]["measured_us"] is None


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A GPU that takes 300, 299, ... us for what it is given; the names of that."""
    found: list[str] = []

    def fake(kernels: dict[str, Any], *sizes: int) -> tuple[float, ...]:
        found.extend(kernels)
        return tuple(300.0 - n for n in range(len(kernels)))

    monkeypatch.setattr("wsched.ladder.measure.measure", fake)
    monkeypatch.setattr("wsched.cli.ladder_choice.device", lambda: "cuda")
    monkeypatch.setattr("wsched.cli.ladder_choice._gpu", lambda: GPUS["H200"])
    monkeypatch.setattr("wsched.cli.ladder._here", lambda steps: True)
    return found


def test_measured_shares_of_the_choice(measured: list[str]) -> None:
    found = json.loads(invoke("--to-choice", "--json").stdout)
    assert measured == [str(n) for n in range(len(found))]
    assert [turn["measured_us"] for turn in found] == [300.0 - n for n in range(len(found))]
    text = invoke("--to-choice").stdout
    share = (300 - len(found) + 1) / 300
    assert text.count("of the choice") == 2 and f"{share:.3f}" in text


def test_numbers_stand_under_the_end_of_their_heading() -> None:
    """Of every column but that of decisions."""
    turns = [Turn("a: 1 → 2", MatmulParams(), us) for us in (8.0, 4.0)]
    console = Console(width=200)
    with console.capture() as shown:
        console.print(_table(turns, (512, 512, 512), (9.0, 5.0)))
    _, _, head, _, *rows, _ = shown.get().splitlines()
    ends = [[m.end() for m in re.finditer(r"[│┃]", line)] for line in (head, *rows)]
    assert len(rows) == 2 and len(ends[0]) == 6 and ends[1:] == ends[:1] * 2
    for line in (head, *rows):
        assert all(line[end - 3 : end - 1].strip() and line[end - 2] == " " for end in ends[0][2:])


@pytest.mark.parametrize("times", [(), (9.0, 5.0)])
def test_the_table_of_the_way(times: tuple[float, ...]) -> None:
    """2 * 512**3 operations, in 8 us and in 4: without a GPU nothing is said of measured ones."""
    turns = [Turn(told, MatmulParams(), us) for told, us in (("", 8.0), ("a: 1 → 2", 4.0))]
    made = _table(turns, (512, 512, 512), times)
    assert made.title == "from the last rung to the choice for 512x512x512, bf16"
    head = ["decision", "predicted TFLOP/s", "of the choice", "measured", "of the choice"]
    rows = [
        ["the last rung", "33.6", "0.500", "29.8", "0.556"],
        ["a: 1 → 2", "67.1", "1.000", "53.7", "1.000"],
    ]
    width = 5 if times else 3
    assert [c.header for c in made.columns] == head[:width]
    found = zip(*(c.cells for c in made.columns), strict=True)
    assert [*map(list, found)] == [row[:width] for row in rows]


@pytest.mark.slow
def test_a_measured_rung(measured: list[str]) -> None:
    text = invoke("v8").stdout
    assert measured == ["v8"] and "measured" in text
    assert f"{2 * 4096**3 / 300e6:.1f}" in text


@pytest.mark.slow
def test_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture, page = tmp_path / "a.png", tmp_path / "a.md"
    assert invoke("v4", "-o", picture).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    page.write_text("<!-- v2 -->\n<!-- end -->\n")
    assert invoke("--page", page).exit_code == 0
    assert page.read_text().startswith("<!-- v2 -->\nA slice is four")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["v11"], "no rung v11: there are v1, v2, v3"),
        (["--shape", "2x64x64x64"], "M, N and K of one matmul"),
        (["--shape", "64x0x64"], "M, N and K of one matmul"),
        (["--target", "sm_80"], "the target sm_80 is not supported"),
        (["--target", "sm_100a", "--to-choice"], "sm_100a: --to-choice is for sm_90a"),
        (["--page", "nowhere/a.md"], "No such file"),
        (["--page", sys.executable], "no text in UTF-8"),
        (["--shape", "2147483647x64x64"], "M = 2147483647 is not supported"),
        (["--shape", "2147483647x64x64", "--to-choice"], "M = 2147483647 is not supported"),
        (["v4", "-o", "nowhere/a.png"], "no such folder"),
    ],
)
def test_refused(arguments: list[str], why: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert why in " ".join(result.stderr.replace("│", " ").split())
