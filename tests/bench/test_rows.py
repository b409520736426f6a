"""``wsched bench rows``: its problems, its file and what it says of memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.bench.test_drawn import fake
from wsched.bench.cli import app
from wsched.bench.drawn.problems import Drawn
from wsched.bench.drawn.results import Line
from wsched.bench.drawn.rows import LAYERS, ROWS, problems_of, streamed, totals


def invoke(*words: str) -> tuple[int, str]:
    arguments = ["rows", "--rounds", "2", *words]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    return result.exit_code, result.output


def line(n: int, k: int, cublas_us: float | None, ratio: float | None) -> Line:
    return Line(Drawn(1, n, k, "tn"), cublas_us, "a", ratio, "a", ratio, 1.0, 1, {})


def test_the_problems() -> None:
    found = problems_of(ROWS, LAYERS)
    assert len(found) == 56 and str(found[0]) == "1x6144x4096 tn"
    assert [str(p) for p in problems_of("2, 1", "64x128,64x128")] == ["2x64x128 tn", "1x64x128 tn"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--rows", "1,x"), "--rows x is not supported; supported: such as 16,64"),
        (("--rows", "0"), "--rows 0 is not supported; supported: such as 16,64"),
        (("--layers", "64x2x3"), "--layers 64x2x3 is not supported; supported: such as 4096x14336"),
    ],
)
def test_other_words(words: tuple[str, str], told: str) -> None:
    code, text = invoke(*words)
    assert code == 2 and text.strip().endswith(told)


@pytest.mark.slow
def test_a_run_and_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = fake(monkeypatch, factors=[2.0])
    asked = ("--rows", "1,16", "--layers", "512x1024", "--json", str(tmp_path / "f.jsonl"))
    code, text = invoke(*asked)
    assert (code, len(wanted)) == (0, 2), text
    assert "1, 512, 1024" in text and "16, 512, 1024" in text
    told = "choice over cuBLAS at 2 problems: geometric mean 0.500, least 0.500, 2 below 0.97"
    assert text.splitlines()[-1] == told
    monkeypatch.setattr("wsched.bench.drawn.command.COMMAND", ("false",))
    assert invoke(*asked)[0] == 0


def test_the_share_of_memory() -> None:
    """64 MiB in 20 µs are 3.36 TB/s, 78 % of 4.3; twice as fast as cuBLAS."""
    found = streamed(line(8192, 4096, 40.0, 2.0))
    assert (found.mib, found.us) == (64, 20.0)
    assert found.share == pytest.approx(2 * 8192 * 4096 / 20e-6 / 4.3e12)
    assert totals([found]) == [
        "choice over cuBLAS at 1 problems: geometric mean 2.000, least 2.000, 0 below 0.97",
        "weights of 64 to 200 MiB: at least 78% of 4.3 TB/s at 1 problems",
    ]


def test_what_failed_has_no_share() -> None:
    failed = streamed(line(8192, 4096, None, None))
    assert failed.us is failed.share is None
    assert totals([failed]) == ["nothing was measured"]
    large = streamed(line(28672, 8192, 120.0, 1.0))
    assert totals([failed, large])[1].startswith("weights of more than 200 MiB: at least 91% of")
