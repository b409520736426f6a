"""What explain says of a schedule that a table has, and that compile takes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import wsched
from tests.schedules import SCHEDULES, definition
from wsched.choose.gpus import GPUS, H200
from wsched.choose.heuristics import candidates, choose_params
from wsched.choose.tuned.entry import Entry
from wsched.choose.tuned.lookup import VARIABLE, forget
from wsched.choose.tuned.table import add_entries
from wsched.cli.app import app
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents

SHAPE = Extents(512, 1024, 256)
PARAMS = SCHEDULES["coop_128x64"]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    own = tmp_path / "own" / "tuned.json"
    add_entries(own, [])
    monkeypatch.setenv(VARIABLE, str(own))
    forget()
    yield own
    forget()


def entry(sms: int, choice_us: float | None = 10.5) -> Entry:
    problem = SHAPE.problem(import_fusion(definition()), sms)
    return Entry(problem, PARAMS, 9.25, choice_us, "0.1.0", "2026-11-21T09:00:00+00:00")


def explained(tmp_path: Path, *words: str) -> str:
    file = tmp_path / "linear.py"
    file.write_text(definition())
    runner = CliRunner(env={"COLUMNS": "1000"})
    result = runner.invoke(app, ["explain", str(file), "--shape", str(SHAPE), *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_text(path: Path, tmp_path: Path) -> None:
    add_entries(path, [entry(132)])
    text = explained(tmp_path)
    tuned = (
        f"  tuned = cooperative 128x64x64: measured 9.2 us, the model's choice 10.5 us, table "
        f"{path} (wsched 0.1.0, 2026-11-21)"
    )
    assert tuned in text.splitlines()
    assert "64 tiles of 128x64x64 are the fastest that was measured" in text
    best = candidates(entry(132).problem)[0]
    assert f": predicted {best.cost.us:.1f} us; the chosen one was measured" in text
    assert str(PARAMS.output_tile) in text.splitlines()[0]


def test_what_was_measured_on_a_sister(path: Path, tmp_path: Path) -> None:
    """An H100's entry serves an H200 that has none, and says so."""
    h100 = GPUS["H100"].name
    add_entries(path, [replace(entry(132), problem=replace(entry(132).problem, gpu=h100))])
    warning = f"; warning: measured on {h100}, not on this GPU: wsched tune measures here\n"
    assert f"table {path} (wsched 0.1.0, 2026-11-21){warning}" in explained(tmp_path)


def test_a_choice_that_was_wrong(path: Path, tmp_path: Path) -> None:
    add_entries(path, [entry(132, None)])
    assert "measured 9.2 us, the model's choice was wrong, table" in explained(tmp_path)


def test_json(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_entries(path, [entry(132)])
    found = json.loads(explained(tmp_path, "--json"))
    assert found["tuned"] == entry(132).to_dict() | {"file": str(path), "gpu": H200}
    assert found["choices"][0]["name"] == "tuned" and found["predicted_us"] > 0
    assert len(found["others"]) == len(found["refusals"])
    monkeypatch.setenv(VARIABLE, "0")
    plain = json.loads(explained(tmp_path, "--json"))
    assert plain["tuned"] is None and "tuned" not in {c["name"] for c in plain["choices"]}
    given = json.loads(explained(tmp_path, "--json", "--params", "cooperative"))
    assert given["tuned"] is None


def test_compile_and_explain_agree(path: Path) -> None:
    """On the machine model, whose SMs are 4."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    inputs: list[Any] = [torch.ones(s, SHAPE.k).bfloat16() for s in (SHAPE.m, SHAPE.n)]
    before = wsched.compile(definition(), inputs)
    add_entries(path, [entry(4)])
    forget()
    kernel = wsched.compile(definition(), inputs)
    assert PARAMS.matches(kernel.params) and kernel is not before
    assert choose_params(entry(4).problem, tuned=False) != PARAMS
    found = wsched.explain(definition(), inputs)
    assert found.kernel is not None and found.kernel.tuned is not None
    invariant = wsched.explain(definition(), inputs, batch_invariant=True)
    assert invariant.kernel is not None and invariant.kernel.tuned is not None
    assert replace(PARAMS, batch_invariant=True).to_dict() == invariant.kernel.tuned["params"]
