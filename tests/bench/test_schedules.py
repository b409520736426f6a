"""``wsched bench schedules`` from its words to its files."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.bench.fake_schedules import ranked_here
from tests.pictures import shown
from wsched.bench.cli import app
from wsched.bench.problem import Problem, Shape
from wsched.bench.schedules import command as command
from wsched.bench.schedules.command import shapes_of
from wsched.bench.schedules.layers import drawn_shapes
from wsched.bench.schedules.plot import plot
from wsched.bench.schedules.results import Totals, notes, rows_of, table

_FILE = "a file of `wsched bench schedules`, or none"
SMALL, LARGE = "16x512x512", "512x4096x1024"


def fake(monkeypatch: pytest.MonkeyPatch, **spec: Any) -> None:
    words = (sys.executable, "-m", "tests.bench.fake_schedules", json.dumps(spec))
    monkeypatch.setattr(command, "COMMAND", words)


def invoke(*words: str) -> tuple[int, str]:
    arguments = ["schedules", "--rounds", "2", *words]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "250"})
    return result.exit_code, result.output


@pytest.mark.slow
def test_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = ranked_here(Problem(Shape(512, 4096, 1024)))
    fake(monkeypatch, factors=[found[1].us / found[0].us * 2])
    saved = tmp_path / "f.json"
    code, text = invoke("--shapes", LARGE, "--top", "5", "--json", str(saved))
    assert code == 0, text
    data = json.loads(saved.read_text())
    assert data["schema"] == "wsched.bench.schedules/1"
    assert len(data["shapes"][LARGE]["systems"]) == 5
    assert "then the fastest 8 and the heuristic's choice" in data["method"]
    (row,) = data["summary"]["shapes"]
    assert (row["shape"], row["schedules"], row["best_rank"]) == (LARGE, 5, 2)
    assert (row["choice"], row["best"]) == (found[0].name, found[1].name)
    assert row["predicted_us"] == pytest.approx(found[0].us)
    assert row["choice_us"] == pytest.approx(found[1].us * 2)
    assert row["ratio"]["median"] == pytest.approx(0.5)
    # 1, 2, 3, 4, 5 against 5, 1, 2, 3, 4 is 0; two of them are predicted alike
    assert row["correlation"] == pytest.approx(0, abs=0.06)
    assert data["summary"]["all"] == {
        "shapes": 1, "minimum": pytest.approx(0.5), "mean": pytest.approx(0.5), "below": 1,
        "correlation": pytest.approx(0, abs=0.06),
    }  # fmt: skip
    assert "fake, bf16, TN: the heuristic's choice and the best" in text
    assert text.splitlines()[-1].startswith(
        "1 shapes: best/choice at least 0.500, geometric mean 0.500, 1 below 0.97;"
    )


@pytest.mark.slow
def test_what_is_in_the_file_is_not_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved = tmp_path / "f.json"
    fake(monkeypatch)
    assert invoke("--shapes", SMALL, "--top", "2", "--json", str(saved))[0] == 0
    first = json.loads(saved.read_text())["shapes"][SMALL]
    fake(monkeypatch, factors=[7.0])
    code, text = invoke("--shapes", f"{SMALL},{LARGE}", "--top", "2", "--json", str(saved))
    assert code == 0, text
    shapes = json.loads(saved.read_text())["shapes"]
    assert list(shapes) == [SMALL, LARGE]
    assert shapes[SMALL] == first
    monkeypatch.setattr(command, "COMMAND", ("false",))
    code, again = invoke("--shapes", f"{SMALL},{LARGE}", "--top", "2", "--json", str(saved))
    assert (code, again.strip()) == (0, text.strip())


@pytest.mark.slow
def test_seconds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch)
    clock = iter([0.0, 5.0, 11.0])
    monkeypatch.setattr("wsched.bench.method.shapes_run.time.monotonic", lambda: next(clock))
    saved = tmp_path / "f.json"
    words = ("--shapes", f"{SMALL},{LARGE},8x512x512", "--seconds", "10", "--json", str(saved))
    code, text = invoke(*words)
    assert code == 0, text
    assert text.splitlines()[-1] == "--seconds have passed: 2 of 3 shapes are measured"
    assert list(json.loads(saved.read_text())["shapes"]) == [SMALL, LARGE]


@pytest.mark.slow
def test_interrupt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A shape is allocated twice, once in each stage.
    fake(monkeypatch, bad={"": "interrupt"})
    code, text = invoke("--shapes", SMALL)
    assert (code, text.strip()) == (130, "interrupted: 0 of 1 shapes are measured")


@pytest.mark.slow
@pytest.mark.usefixtures("announced_hangs")
def test_what_hangs_is_left_out_and_kept_in_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = ranked_here(Problem(Shape(16, 512, 512)))[0].name
    fake(monkeypatch, bad_places={"0": "hang"})
    saved = tmp_path / "f.json"
    code, text = invoke("--shapes", SMALL, "--timeout", "2", "--json", str(saved))
    assert code == 1
    assert f"{name} failed at {SMALL}: {SMALL}: {name} hung at 'all: check'" in text
    data = json.loads(saved.read_text())
    assert data["shapes"][SMALL]["systems"][name]["status"] == "failed"
    (row,) = data["summary"]["shapes"]
    assert (row["choice"], row["choice_us"], row["ratio"], row["best_rank"]) == (
        name,
        None,
        None,
        2,
    )
    assert text.splitlines()[-1] == "no choice was measured"


@pytest.mark.parametrize(
    ("content", "error", "supported"),
    [
        ("[", "(Expecting value: line 1 column 2 (char 1))", _FILE),
        ("[]", "('list' object has no attribute 'get')", _FILE),
        ("{}", "with schema None", "wsched.bench.schedules/1"),
    ],
)
def test_another_file(content: str, error: str, supported: str, tmp_path: Path) -> None:
    saved = tmp_path / "f.json"
    saved.write_text(content)
    code, text = invoke("--shapes", SMALL, "--json", str(saved))
    told = f"--json {saved} {error} is not supported; supported: {supported}"
    assert (code, text.strip()) == (2, told)


@pytest.mark.slow
def test_a_file_of_other_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch)
    saved = tmp_path / "f.json"
    assert invoke("--shapes", SMALL, "--top", "2", "--json", str(saved))[0] == 0
    code, text = invoke("--shapes", SMALL, "--top", "3", "--json", str(saved))
    rest = (
        '"plan": {"rounds": 2, "replay_ms": 10.0, "energy_s": 0.0}, "seed": 0, "dtype": "bf16", '
        '"layout": "tn"}'
    )
    assert (code, text.strip()) == (
        2,
        f'--json {saved} of a run with other options ({{"top": 2, {rest}) is not supported; '
        f'supported: {{"top": 3, {rest}',
    )


def test_shapes() -> None:
    assert shapes_of("layers", 5, 3) == drawn_shapes(5, 3)
    assert shapes_of("8x8x8, layers", 2, 3) == (Shape(8, 8, 8), *drawn_shapes(2, 3))
    assert shapes_of("8x8x8", 1000, 3) == (Shape(8, 8, 8),)


def results() -> dict[str, Any]:
    def ok(rank: int, first: float, *times: float) -> dict[str, Any]:
        record = {"rank": rank, "predicted_us": 10.0 * rank, "status": "ok", "reason": ""}
        record["first_us"] = first
        return record | ({"times_us": list(times)} if times else {})

    wrong = {"rank": 3, "predicted_us": 30.0, "status": "wrong", "reason": "nan"}
    lost = {"status": "failed", "reason": "hung"}
    three = {
        "a": ok(1, 11.0, 11.0, 12.0),
        "b": ok(2, 10.0, 10.0, 9.0),
        "c": wrong,
        "d": ok(4, 50.0),
    }
    good = {"a": ok(1, 11.0, 11.0, 12.0), "b": ok(2, 14.0, 14.0, 14.0)}
    return {
        LARGE: {"choice": "a", "systems": three},
        SMALL: {"choice": "a", "systems": good},
        "8x8x8": {"choice": "a", "systems": {"b": ok(2, 20.0, 20.0), "a": lost}},
        "8x8x16": {"choice": "a", "systems": {"a": lost}},
    }


def test_table(golden: object) -> None:
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(table(rows_of(results()), "NVIDIA H200"))
    assert console.export_text() == golden


def test_totals_and_notes() -> None:
    rows = rows_of(results())
    assert str(Totals.of(rows)) == (
        "2 shapes: best/choice at least 0.830, geometric mean 0.911, 1 below 0.97; "
        "median rank correlation 0.75"
    )
    assert str(Totals.of(rows[2:])) == "no choice was measured"
    assert str(Totals.of(rows_of({SMALL: {"choice": "b", "systems": {
        "b": {"rank": 1, "predicted_us": 1.0, "status": "ok", "reason": "", "first_us": 1.0,
              "times_us": [1.0]}}}}))) == (
        "1 shapes: best/choice at least 1.000, geometric mean 1.000, 0 below 0.97; "
        "median rank correlation –"
    )  # fmt: skip
    assert notes(rows) == [f"c wrong at {LARGE}: nan", "a failed at 8x8x8, 8x8x16: hung"]


@pytest.mark.parametrize("name", ["all", "none"])
def test_plot(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: object) -> None:
    rows = rows_of(results()) if name == "all" else []
    draw = lambda path: plot(rows, "NVIDIA H200", path)  # noqa: E731
    assert shown(draw, tmp_path, monkeypatch) == golden
