"""The table, its notes and its picture."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from lowering.ground.errors import UnsupportedError
from tests.bench.fakes import process
from tests.bench.test_results import BIG, SMALL, SYSTEMS, runs
from tests.pictures import shown
from wsched.bench.gemm.plot import plot
from wsched.bench.gemm.report import markdown, notes, table
from wsched.bench.gemm.results import summarize


def test_table(golden: object) -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table(summarize([BIG, SMALL], SYSTEMS, runs()), "NVIDIA H200"))
    assert console.export_text() == golden


def test_what_failed_is_red() -> None:
    parts = [
        process(
            {
                BIG: {
                    "cublas": [10.0],
                    "triton": ("wrong", "off"),
                    "nvfuser": ("skipped", "no"),
                    "wsched": ("failed", "ScheduleError"),
                }
            }
        )
    ]
    made = table(summarize([BIG], SYSTEMS, parts), "")
    cells = [next(iter(column.cells)) for column in made.columns]
    red = [str(cell) for cell in cells if isinstance(cell, Text) and "red" in str(cell.style)]
    assert red == ["wrong", "failed"]


def test_markdown(golden: object) -> None:
    assert markdown(summarize([BIG, SMALL], SYSTEMS, runs())) == golden


def test_notes(golden: object) -> None:
    assert "\n".join(notes(summarize([BIG, SMALL], SYSTEMS, runs()), runs())) == golden


def test_notes_without_clocks() -> None:
    parts = runs()
    for part in parts:
        part["shapes"][str(SMALL)]["clocks"] = {"source": "none", "samples": 0}
    lines = notes(summarize([SMALL], SYSTEMS, parts), parts)
    assert lines[-1] == "4096x3584x512: clocks and power not read (neither NVML nor nvidia-smi)"


def test_no_clocks_of_what_was_not_measured() -> None:
    parts = [process({BIG: {"cublas": ("skipped", "out of memory")}})]
    assert notes(summarize([BIG], ["cublas"], parts), parts) == ["cublas skipped: out of memory"]


def test_energy_note() -> None:
    parts = runs()
    for part in parts:
        part["shapes"][str(BIG)]["systems"]["wsched"]["pj_per_flop"] = 0.987654
    assert "8192x8192x8192: pJ/FLOP alone: wsched 0.988" in notes(
        summarize([BIG], SYSTEMS, parts), parts
    )


def test_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: object) -> None:
    found = summarize([BIG, SMALL], SYSTEMS, runs())
    draw = lambda path: plot(found, "NVIDIA H200", path)  # noqa: E731
    assert shown(draw, tmp_path, monkeypatch) == golden


@pytest.mark.usefixtures("no_matplotlib")
def test_plot_without_matplotlib(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as error:
        plot(summarize([BIG], SYSTEMS, runs()), "", tmp_path / "f.png")
    assert str(error.value) == (
        "a picture without matplotlib is not supported; supported: wsched[bench]. "
        "pip install 'wsched[bench]'"
    )
