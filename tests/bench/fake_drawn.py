"""A worker of ``wsched bench random`` without a GPU: a schedule takes what is predicted, times a
factor by its place; cuBLAS takes what is predicted for what is taken.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from lowering.ground.errors import UnsupportedError
from tests.bench.fakes import FakeGpu, FakeSampler
from wsched.bench.drawn.schedules import schedules_for
from wsched.bench.drawn.worker import run_drawn_job
from wsched.bench.problem import Problem, definition_text
from wsched.bench.schedules.ranking import Ranked, problem_for

DEVICE = {"name": "fake", "sms": 4, "l2_bytes": FakeGpu.l2_bytes}


def listed(problem: Problem, first: int) -> list[Ranked]:
    text = definition_text(problem)
    planned = problem_for(text, problem.shape, 4, FakeGpu.l2_bytes, "fake")
    return schedules_for(text, planned, first)


class DrawnGpu(FakeGpu):
    """``factors`` by place among the schedules, from 0; 1 behind them."""

    def __init__(self, factors: list[float], bad_places: dict[int, str], first: int) -> None:
        super().__init__({}, {})
        self.factors, self.bad_places, self.first = factors, bad_places, first

    def describe(self) -> dict[str, Any]:
        return dict(DEVICE)

    def allocate(self, problem: Problem, sets: int) -> None:
        try:
            found = listed(problem, self.first)
        except UnsupportedError:
            found = []
        factors = [*self.factors, *([1.0] * len(found))]
        self.microseconds = {r.name: r.us * f for r, f in zip(found, factors, strict=False)}
        self.microseconds["cublas"] = found[0].us if found else 1.0
        self.bad |= {found[i].name: kind for i, kind in self.bad_places.items()}
        super().allocate(problem, sets)


def main() -> None:
    """The first argument is JSON, ``{"factors", "bad_places"}``; then FIRST."""
    spec, first = json.loads(sys.argv[1]), int(sys.argv[2])

    def write(event: dict[str, Any]) -> None:
        print(json.dumps(event), flush=True)

    job = json.loads(sys.stdin.readline())
    places = {int(i): kind for i, kind in spec.get("bad_places", {}).items()}
    gpu = DrawnGpu(spec.get("factors", []), places, first)
    write({"event": "start", "environment": {"gpu": gpu.describe()}})
    run_drawn_job(job, first, gpu, FakeSampler(), write)


if __name__ == "__main__":
    main()
