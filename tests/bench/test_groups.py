"""Grouped matmuls by the sizes of their groups: the sizes, what is asked for, what is printed."""

from __future__ import annotations

import pytest
import torch
from typer.testing import CliRunner

from wsched.bench.cli import app
from wsched.bench.groups import (
    DENSE,
    PROBLEMS,
    SIZES,
    TOLERANCE,
    TORCH,
    WSCHED,
    Problem,
    Row,
    _measured,
    padded,
    report,
    sizes_of,
)

SMALL = Problem(4, 300, 48, 64)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("problem", [*PROBLEMS, Problem(1, 700, 8, 8)], ids=str)
def test_all_rows_are_somebody_s(kind: str, problem: Problem) -> None:
    found = sizes_of(kind, problem, 3)
    assert (len(found), min(found) >= 0) == (problem.groups, True)
    assert found == sizes_of(kind, problem, 3)
    if kind == "odd":
        assert problem.rows - sum(found) < 256 or sum(n % 256 for n in found) == sum(found)
    else:
        assert sum(found) == problem.rows


def test_sizes() -> None:
    drawn, odd, last, half = (sizes_of(kind, PROBLEMS[0], 1) for kind in SIZES)
    assert drawn != sizes_of("drawn", PROBLEMS[0], 2) and 0 < min(drawn) < 100 < 800 < max(drawn)
    assert [n % 256 for n in odd] == [1, 63, 65, 129] * 4
    assert last == sorted(drawn)
    assert max(half) == 4096 and half != sorted(half)


@pytest.mark.parametrize(
    ("rows", "tile", "more"), [([64, 128], 64, 1.0), ([1, 0, 65], 64, 192 / 66), ([], 64, 0.0)]
)
def test_padded(rows: list[int], tile: int, more: float) -> None:
    assert padded(rows, tile) == more


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", SIZES)
def test_all_ways_are_measured(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU by the machine, where the result is the same."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    w = torch.randn(4, 48, 64).mul(0.125).bfloat16().mT
    row = _measured(SMALL, w, kind, 1, 1, 0.001)
    assert (set(row.us), row.rows) == ({TORCH, DENSE, WSCHED}, sizes_of(kind, SMALL, 1))
    assert row.flops == 2 * sum(row.rows) * 48 * 64 and row.error < TOLERANCE


def test_a_line() -> None:
    """Useful rows 96 of 192, so half of the dense time is what a perfect kernel has twice of."""
    us = {TORCH: 30.0, DENSE: 8.0, WSCHED: 20.0}
    row = Row("2x96x8x8", "odd", 4, [65, 31], 2_000_000_000, us, 0.5)
    assert (row.ratio, row.share) == (1.5, 0.8)
    assert report(row) == (
        "2x96x8x8 odd 4, at most 65 of 96 rows: torch     30.0 us   67  dense      8.0 us  250  "
        "wsched     20.0 us  100 TFLOP/s, 1.500 as fast as torch, 0.800 of the dense rate of rows "
        "padded to 64  WRONG: off by 5.0e-01"
    )


@pytest.mark.parametrize(
    ("arguments", "what", "supported"),
    [
        (["--sizes", "easy"], "--sizes easy", "of drawn, odd, last, half"),
        (["--sizes", ","], "--sizes ,", "of drawn, odd, last, half"),
        (["--seeds", "0,-1"], "--seeds -1", "numbers, separated by commas"),
        (["--problems", "8x8x8"], "--problems 8x8x8", "GxMxNxK of positive numbers"),
        (["--problems", "8x0x8x8"], "--problems 8x0x8x8", "GxMxNxK of positive numbers"),
        ([], "wsched bench groups here (torch.cuda finds no GPU)", "a CUDA GPU with torch"),
    ],
)
def test_refused(arguments: list[str], what: str, supported: str) -> None:
    result = CliRunner().invoke(app, ["groups", *arguments])
    assert result.exit_code == 2
    text = f"{what} is not supported; supported: {supported}"
    assert text in result.output.replace("\n", "")
