"""``wsched bench pingpong`` from its words to its files."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.bench.fakes import process
from tests.pictures import shown
from wsched.bench.cli import app
from wsched.bench.pingpong import command as command
from wsched.bench.pingpong.command import SWEEP, sweep_shapes
from wsched.bench.pingpong.plot import curves, plot
from wsched.bench.pingpong.results import Row, notes, rows_of, table
from wsched.bench.problem import ANCHORS, Shape

TIMES = {"cooperative": 12.0, "ping-pong": 10.0, "wsched": 11.0, "cublas": 13.0, "compile": 14.0}
SHORT, LONG, OTHER = Shape(256, 256, 64), Shape(256, 256, 512), Shape(512, 256, 64)


def fake(monkeypatch: pytest.MonkeyPatch, **spec: Any) -> None:
    text = json.dumps({"times": TIMES, **spec})
    words = (sys.executable, "-m", "tests.bench.fakes", text)
    monkeypatch.setattr(command, "COMMAND", words)


def invoke(*words: str) -> tuple[int, str]:
    arguments = ["pingpong", "--shapes", "256x256x64", "--peers", "compile", *words]
    result = CliRunner().invoke(app, [*arguments, "--rounds", "2"], env={"COLUMNS": "250"})
    return result.exit_code, result.output


def test_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch, bad={"compile": "skip"})
    saved = tmp_path / "f.json"
    words = ("--epilogues", "bare,silu", "--processes", "2", "--json", str(saved))
    code, text = invoke(*words)
    assert code == 0, text
    data = json.loads(saved.read_text())
    assert data["schema"] == "wsched.bench.pingpong/1"
    assert data["command"]["epilogues"] == ["bare", "silu"]
    assert [[p["seed"] for p in runs] for runs in data["epilogues"].values()] == [[0, 1]] * 2
    assert data["method"].endswith("the first system's over the second one's.")
    row = data["summary"][1]
    assert (row["epilogue"], row["shape"]) == ("silu", "256x256x64")
    assert row["us"] == {n: t for n, t in TIMES.items() if n != "compile"}
    assert {n: r["median"] for n, r in row["ratios"].items()} == {
        "cooperative/ping-pong": 1.2,
        "choice/best": 1.1,
        "cuBLAS/choice": pytest.approx(13 / 11),
        "ping-pong/cooperative": pytest.approx(10 / 12),
        "cuBLAS/cooperative": pytest.approx(13 / 12),
    }
    assert "fake, bf16, TN: microseconds, and ratios of times" in text
    assert (
        "compile skipped at bare 256x256x64, silu 256x256x64: not installed: there is no module x"
        in text
    )


def test_the_bar_goes_over_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of so many shapes of each epilogue, in the order in which they are measured."""
    shown, totals = list[tuple[int, str]](), list[int]()

    @contextmanager
    def bar(total: int) -> Iterator[Callable[[int, str], None]]:
        totals.append(total)
        yield lambda finished, text: shown.append((finished, text.partition(":")[0]))

    monkeypatch.setattr(command, "progress_bar", bar)
    fake(monkeypatch)
    words = ("--epilogues", "bare,silu", "--processes", "2", "--shapes", f"{SHORT},{OTHER}")
    code, text = invoke(*words)
    assert code == 0, text
    turns = [f"{epilogue} {shape}" for epilogue in ("bare", "silu") for shape in (SHORT, OTHER)]
    assert totals == [8] and list(dict.fromkeys(shown)) == [*enumerate(turns * 2)]


@pytest.mark.parametrize(("system", "status"), [("ping-pong", 1), ("compile", 0)])
def test_a_wrong_result_ends_with_1_if_it_is_ours(
    system: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch, bad={system: "wrong"})
    code, text = invoke("--epilogues", "gelu")
    assert code == status
    assert f"{system} wrong at gelu 256x256x64: wrong result: relative error nan" in text


def test_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, text = invoke("--epilogues", "relu")
    assert (code, text.strip()) == (
        2, "the epilogue 'relu' is not supported; supported: bare, gelu, residual, silu",
    )  # fmt: skip
    fake(monkeypatch, end="refused")
    code, text = invoke()
    assert (code, text) == (
        2,
        "wsched bench here (torch.cuda finds no GPU) is not supported; "
        "supported: a CUDA GPU with torch\n",
    )


def test_interrupt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch, bad={"": "interrupt"})
    words = ["pingpong", "--shapes", "256x256x64,512x256x64", "--peers", "compile"]
    saved = tmp_path / "f.json"
    words += ["--epilogues", "bare,gelu", "--json", str(saved), "--rounds", "1"]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "250"})
    assert result.exit_code == 130
    assert "interrupted: 0 of 2 processes ended" in result.output
    assert [r["shape"] for r in json.loads(saved.read_text())["summary"]] == ["256x256x64"]


def test_shapes() -> None:
    assert sweep_shapes("sweep, 8x8x8") == (*SWEEP, Shape(8, 8, 8))
    # 4096x4096x4096 is in both.
    assert len(sweep_shapes("sweep,anchors")) == len(SWEEP) + len(ANCHORS) - 1


def runs() -> dict[str, list[dict[str, Any]]]:
    def times(ping_pong: float) -> dict[str, Any]:
        return {
            "cooperative": [10.0, 10.0, 10.0],
            "ping-pong": [ping_pong, ping_pong, ping_pong + 1],
            "wsched": [10.0, 10.0, 10.0],
            "cublas": [11.0, 11.0, 11.0],
            "compile": ("skipped", "not installed: there is no module triton"),
        }

    bare = process({LONG: times(11.0), SHORT: times(8.0), OTHER: times(9.0)})
    lost = dict.fromkeys(TIMES, ("failed", "hung"))
    return {"bare": [bare], "silu": [process({SHORT: times(7.0), LONG: lost})]}


def rows() -> list[Row]:
    return rows_of([LONG, SHORT, OTHER], runs())


def test_table(golden: object) -> None:
    console = Console(width=170, record=True, file=io.StringIO())
    console.print(table(rows(), tuple(TIMES), "NVIDIA H200"))
    assert console.export_text() == golden


def test_notes(golden: object) -> None:
    assert "\n".join(notes(rows())) == golden


def test_curves() -> None:
    where, found = curves(rows())
    assert where == "M=256, N=256"
    assert {name: [(k, s.median) for k, s in curve] for name, curve in found.items()} == {
        "ping-pong, bare": [(64, 0.8), (512, 1.1)],
        "ping-pong, silu": [(64, 0.7)],
        "cuBLAS, bare": [(64, 1.1), (512, 1.1)],
    }


def test_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: object) -> None:
    draw = lambda path: plot(rows(), "NVIDIA H200", path)  # noqa: E731
    assert shown(draw, tmp_path, monkeypatch) == golden
