"""The command ``wsched tiles``: the table, JSON, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.schedules import definition
from wsched import MatmulParams
from wsched.cli.app import app


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["tiles", *map(str, arguments)])


def printed(*arguments: object) -> str:
    """Standard output of a command that succeeds."""
    result = invoke(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return str(result.stdout)


@pytest.mark.slow
def test_tiles_of_a_definition(file: Path, golden: object) -> None:
    text = printed(file)
    assert text == golden
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.slow
def test_tiles_without_what_is_refused(file: Path) -> None:
    whole, legal = (printed(file, *option).splitlines() for option in ((), ["--legal"]))
    assert whole[0].split() == legal[0].split() and whole.count("why not others") == 1
    assert "why not others" not in legal
    assert len(legal) < len(whole) and not any(" - " in line for line in legal)
    assert printed("--legal").splitlines() == legal  # a linear of bf16 is the default


@pytest.mark.slow
def test_tiles_as_json(file: Path) -> None:
    whole, legal = (json.loads(printed(file, "--json", *option)) for option in ((), ["--legal"]))
    assert [c for c in whole if c["legal"]] == legal
    assert all((c["params"] is None) == bool(c["reason"]) for c in whole)
    first = legal[0]
    assert (first["m"], first["n"], first["k"], first["warpgroups"]) == (64, 8, 32, 1)
    assert MatmulParams.from_dict(first["params"]).tile_sizes.cta_tile.n == 8


@pytest.mark.slow
def test_tiles_with_parameters_of_their_own(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "params.json"
    path.write_text('{"cluster_dims": {"m": 8}}')
    text = " ".join(printed(file, "--params", path).split())
    assert "8x32: the tile's n 8, loaded by 8 CTAs together: each would load 1 rows" in text


def test_tiles_of_what_is_not_scheduled(tmp_path: Path) -> None:
    path = tmp_path / "sum.py"
    path.write_text(definition().replace("(x, w)", "(x, w)\n    d = fd.ops.prod(d, dims=[1])"))
    result = invoke(path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{path}: ")
