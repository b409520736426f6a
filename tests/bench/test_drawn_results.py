"""What the rounds of one process and of several come to."""

from __future__ import annotations

from typing import Any

import pytest

from wsched.bench.drawn.problems import Drawn
from wsched.bench.drawn.results import line_of, totals


def times(**us: list[float]) -> dict[str, Any]:
    systems = {n: {"status": "ok", "times_us": t} for n, t in us.items()}
    return {"choice": "taken", "systems": systems}


def test_a_line_is_the_median_of_processes() -> None:
    """Of three, of which one had the other schedule in front by chance, and one is slow."""
    problem = Drawn(1000, 1000, 1000)
    one = times(cublas=[12.0, 12.0], taken=[10.0, 10.2], other=[9.0, 9.0], third=[9.5, 9.5])
    two = times(cublas=[12.0, 11.0], taken=[10.0, 10.0], other=[10.4, 10.5], third=[9.8, 9.8])
    slow = times(cublas=[24.0, 24.0], taken=[20.0, 20.0], other=[20.4, 20.4], third=[19.2, 19.2])
    alone = line_of(problem, [one])
    assert (alone.best, alone.choice_ratio) == ("other", pytest.approx(12 / 10.1, rel=1e-3))
    assert alone.of_best == pytest.approx(9 / 10.1, rel=1e-3)
    line = line_of(problem, [one, two, slow])
    assert (line.best, line.of_best) == ("third", pytest.approx(0.96))
    assert (line.cublas_us, line.best_ratio) == (12, 1.25)
    assert line.choice_ratio == pytest.approx(12 / 10.1, rel=1e-3)
    two["systems"]["third"] = {"status": "wrong", "reason": "off"}
    line = line_of(problem, [one, two, slow])
    assert (line.best, line.broken) == ("taken", {"third": "off"}) and line.of_best == 1
    assert totals([line])[-1].startswith("choice over the best: geometric mean 1.000")
    only = line_of(problem, [times(cublas=[12.0, 12.0], taken=[10.0, 10.2])])
    assert only.of_best == only.schedules == 1
    assert totals([only])[-1].startswith("best over cuBLAS")
    told = totals([line, line_of(problem, [one])])[-1]
    assert (
        told == "choice over the best: geometric mean 0.944, least 0.891, 1 of 2 at 0.97 or above"
    )
    no_reference = {**two, "systems": {**two["systems"], "cublas": {"status": "wrong"}}}
    line = line_of(problem, [one, no_reference])
    assert (line.cublas_us, line.choice_ratio, line.best) == (None, None, "other")
