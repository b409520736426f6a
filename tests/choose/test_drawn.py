"""The cost model where what it took was slower than cuBLAS, and where its laws disagreed: drawn
problems whose operands no cache holds, on an H200 and on an H100 that nothing was fitted to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.choose import test_fresh
from tests.choose.test_cost_model import Measured, spearman
from tests.choose.test_unaligned import planned, ratio
from wsched.bench.method.statistic import geometric_mean
from wsched.choose.copy_engine import ASKED_BYTES, fill_cycles
from wsched.choose.cost_model import cost
from wsched.choose.gpus import GPUS
from wsched.choose.shape import Shape
from wsched.schedule.matmul.params import (
    ClusterDims,
    L2Promotions,
    MatmulParams,
    TensorMapL2Promotion,
)

DATA = json.loads((Path(__file__).parents[1] / "data" / "h200_drawn.json").read_text())

CHUNK = 12
"""Where a row has the columns of a chunk."""


def params_of(row: list[int]) -> MatmulParams:
    made = test_fresh.params_of([*row[:CHUNK], *row[CHUNK + 1 :]])
    return replace(made, epilogue_columns=row[CHUNK])


@cache
def measured(which: str) -> dict[str, Measured]:
    """What was predicted and measured of each problem's schedules."""
    gpu = GPUS["H100" if which == "h100" else "H200"]

    def one(name: str, rows: list[list[Any]]) -> Measured:
        problem = replace(planned(name), gpu=gpu.name, l2_bytes=gpu.l2_bytes)
        return {str(r[:-1]): (cost(problem, params_of(r[:-1])).us, r[-1]) for r in rows}

    return {name: one(name, found["schedules"]) for name, found in DATA[which].items()}


def over_cublas(which: str) -> list[float]:
    """Of cuBLAS's time to that of the measured schedule with the least prediction."""
    return [DATA[which][n]["cublas"] / min(us.values())[1] for n, us in measured(which).items()]


LIMITS: Mapping[str, tuple[int, float, float]] = {
    "misses": (36, 0.94, 0.80), "choices": (73, 0.975, 0.83), "h100": (18, 0.945, 0.85),
}  # fmt: skip
"""How many problems, and what the choice is of the fastest: the mean, and the least. Before the
laws of lines that are cut the means were 0.934, 0.970 and 0.931."""


@pytest.mark.parametrize("which", LIMITS)
def test_the_choice_is_close_to_the_best(which: str) -> None:
    found = [ratio(us) for us in measured(which).values()]
    count, mean, least = LIMITS[which]
    assert len(found) == count and min(found) > least
    assert geometric_mean(found) > mean


def test_the_choice_beside_cublas() -> None:
    """1.031 before at what was drawn; misses of an H100 0.925, of an H200 0.909."""
    assert geometric_mean(over_cublas("choices")) > 1.04
    assert geometric_mean(over_cublas("h100")) > 0.94
    assert geometric_mean(over_cublas("misses")) > 0.92


@pytest.mark.parametrize(("which", "least"), [("misses", 0.53), ("h100", 0.6)])
def test_the_order_is_right(which: str, least: float) -> None:
    """Of schedules that the model has close together: 0.524 and 0.473 before."""
    assert median(map(spearman, measured(which).values())) > least


@pytest.mark.parametrize("which", LIMITS)
def test_the_times_are_about_right(which: str) -> None:
    errors = [abs(p / m - 1) for us in measured(which).values() for p, m in us.values()]
    assert median(errors) < 0.07


# --- lines that are cut ---------------------------------------------------------------------------

ALONE = ClusterDims()


def filled(n: int, rows: tuple[int, int] = (128, 128), cluster: ClusterDims = ALONE) -> float:
    """Cycles that a stage of 128 rows and so many columns of an N-major B takes, by what its rows
    and those of A are aligned to."""
    a, b = rows
    problem = replace(planned("4096x4096x4096 tt"), align_a=a, align_b=b)
    row = [128, n, 64, 2, 1, 0, 0, cluster.m, cluster.n, 1, 4, 2, 0, 1, 128, 128, 8]
    line = TensorMapL2Promotion.B128
    cycles: float = fill_cycles(problem, Shape.of(params_of(row)), L2Promotions(line, line), 60)
    return cycles


def test_columns_cut_lines_as_the_alignment_of_rows_does() -> None:
    """192 columns are three lines, 160 two and a half, 176 lie at multiples of 32 bytes."""
    assert filled(192) < filled(160) == filled(176) < filled(168)
    assert filled(160) == filled(160, (128, 64)) == filled(192, (128, 64))
    assert filled(168) == filled(168, (128, 16)) == filled(192, (128, 16))


def test_rows_of_64_bytes_cut_as_those_of_32_and_only_those_come_slowly_to_pairs() -> None:
    assert ASKED_BYTES[64] == ASKED_BYTES[32] > ASKED_BYTES[16]
    alone, pair = (filled(192, (64, 64), c) for c in (ALONE, ClusterDims(2, 1)))
    narrow = filled(192, (32, 32), ClusterDims(2, 1))
    assert alone == filled(192, (32, 32)) and pair < narrow < alone
