"""A device on which each schedule takes a known multiple of what is predicted for it; as a module
a worker of `wsched bench schedules` and `wsched tune` that has it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.bench.fakes import FakeGpu, FakeSampler
from wsched.bench.problem import Problem, definition_text
from wsched.bench.schedules.ranking import Ranked, ranking
from wsched.bench.schedules.worker import run_ranking_job
from wsched.bench.tune.worker import FIRST, definition_of

SMS = 4


def ranked_here(problem: Problem) -> list[Ranked]:
    return ranking(definition_text(problem), problem.shape, SMS, FakeGpu.l2_bytes)


class RankedGpu(FakeGpu):
    """``factors``: by place in the ranking, from 0: measured over predicted time; 1 behind them.

    ``bad_places``: place -> kind, as ``FakeGpu.bad``.
    """

    def __init__(
        self, factors: list[float], bad_places: dict[int, str], bad: dict[str, str]
    ) -> None:
        super().__init__({}, bad)
        self.factors, self.bad_places = factors, bad_places

    def describe(self) -> dict[str, Any]:
        return {"name": "fake", "sms": SMS}

    def allocate(self, problem: Problem, sets: int) -> None:
        found = ranked_here(problem)
        factors = [*self.factors, *([1.0] * len(found))]
        self.microseconds = {r.name: r.us * f for r, f in zip(found, factors, strict=False)}
        self.bad |= {found[i].name: kind for i, kind in self.bad_places.items()}
        super().allocate(problem, sets)


def main() -> None:
    """A worker: the first argument is JSON, ``{"factors", "bad_places", "bad"}``; then TOP.

    With a third one, an epilogue, it is that of ``wsched tune``.
    """
    spec, top = json.loads(sys.argv[1]), int(sys.argv[2])

    def write(event: dict[str, Any]) -> None:
        print(json.dumps(event), flush=True)

    job = json.loads(sys.stdin.readline())
    places = {int(i): kind for i, kind in spec.get("bad_places", {}).items()}
    gpu = RankedGpu(spec.get("factors", []), places, spec.get("bad", {}))
    write({"event": "start", "environment": {"gpu": gpu.describe()}})
    tuned = sys.argv[3:]
    how: Any = (lambda p: definition_of(tuned[0], p), FIRST) if tuned else ()
    run_ranking_job(job, top, gpu, FakeSampler(), write, *how)


if __name__ == "__main__":
    main()
