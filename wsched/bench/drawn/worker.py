"""A fresh process that measures drawn problems: ``python -m wsched.bench.drawn.worker FIRST``.

FIRST is how many of the model's schedules are tried, 0 for none but what is taken. Standard input
and output are those of :mod:`wsched.bench.gemm.worker`; a shape has its layout behind M, N and K,
and systems are schedules under their names, beside cuBLAS. Where the job's ``systems`` have a
problem, what stands there is measured, ``{name: {"params", "predicted_us"}}``, in one stage: it has
been found by a process in front.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Any

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.bench.drawn.problems import Drawn
from wsched.bench.drawn.schedules import schedules_for
from wsched.bench.gemm.worker import Measure, Write, measure_each, serve
from wsched.bench.method.gpu import CudaGpu
from wsched.bench.method.measure import Gpu, Plan, Sampler, Tell
from wsched.bench.method.stages import FirstStage, measure_in_stages
from wsched.bench.peers.systems import REFERENCE
from wsched.bench.problem import Problem, definition_text
from wsched.bench.schedules.ranking import Ranked
from wsched.bench.schedules.worker import DescribedGpu, planned_on
from wsched.choose.tuned.entry import problem_to_dict
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["FIRST", "main", "measure_drawn", "run_drawn_job"]

FIRST = FirstStage(rounds=3, share=0.15, finalists=5)


def measure_drawn(
    gpu: Gpu,
    problem: Problem,
    found: Sequence[Ranked],
    first: FirstStage | None,
    excluded: Collection[str],
    plan: Plan,
    sampler: Sampler,
    tell: Tell,
    seed: int,
) -> dict[str, Any]:
    """Measure schedules and cuBLAS in the same rounds, in two stages or one.

    All run in a few short rounds; cuBLAS, the first schedule, which is what is taken, and the
    fastest then run as ``plan`` says. Without a first stage all run so; without any schedule cuBLAS
    runs alone.

    Returns:
        ``{"sets", "choice", "systems": {name: score}, "clocks"}``, the choice empty where no
        schedule is given. A score has ``status``; where
        that is not ``ok``, ``reason``; ``predicted_us`` of a schedule; ``first_us``, the median of
        the first stage, and ``times_us`` of the second one's rounds if it was in that.

    Raises:
        Broken: the CUDA context is lost.
    """
    choice = found[0].name if found else ""
    systems: dict[str, dict[str, Any] | None] = {REFERENCE: None}
    systems |= {r.name: r.params.to_dict() for r in found}
    systems = {n: p for n, p in systems.items() if n not in excluded}
    stages = measure_in_stages(
        gpu, problem, systems, {REFERENCE, choice}, {REFERENCE}, first, plan, sampler, tell, seed
    )
    scores = {n: _brief(r) for n, r in stages.scores.items()}
    for r in found:
        if r.name in scores:
            scores[r.name] |= {"predicted_us": round(r.us, 3), "params": r.params.to_dict()}
    return {"sets": stages.sets, "choice": choice, "systems": scores, "clocks": stages.clocks}


def _brief(score: dict[str, Any]) -> dict[str, Any]:
    """What is kept of one of thousands: how it went, and times to a nanosecond."""
    kept = {k: score[k] for k in ("status", "reason", "error") if score.get(k)}
    if "first_us" in score:
        kept["first_us"] = round(score["first_us"], 3)
    if score["status"] == "ok" and "times_us" in score:
        kept["times_us"] = [round(us, 3) for us in score["times_us"]]
    return kept


def run_drawn_job(
    job: dict[str, Any], first: int, gpu: DescribedGpu, sampler: Sampler, write: Write
) -> None:
    """Measure the job's problems one after another; see :func:`wsched.bench.gemm.worker.run_job`.

    A result has what was planned for as ``problem``, or why wsched takes none as ``refused``.

    Args:
        job: shapes with their layout, and plan; what it excludes are names of systems.
        first: how many of the model's schedules.
        gpu: the device.
        sampler: of clocks and power.
        write: takes the events.
    """
    plan, seed, planned_for = Plan(**job["plan"]), job["seed"], planned_on(gpu)

    def ready(drawn: Drawn, excluded: Collection[str], tell: Tell) -> Measure:
        problem = drawn.problem
        text = definition_text(problem)
        told: dict[str, Any] = {}
        given = job["systems"].get(str(drawn))
        try:
            planned = planned_for(text, problem.shape)
            found = schedules_for(text, planned, first) if given is None else _ranked(given)
            told["problem"] = problem_to_dict(planned)
        except (ScheduleError, UnsupportedError) as refusal:
            found, told["refused"] = [], str(refusal)
        stage = FIRST if given is None and len(found) > 1 else None
        return lambda: {
            **measure_drawn(gpu, problem, found, stage, excluded, plan, sampler, tell, seed), **told
        }  # fmt: skip

    measure_each(job, write, Drawn, ready)


def _ranked(given: dict[str, dict[str, Any]]) -> list[Ranked]:
    """The schedules of a job that says which."""
    return [Ranked(name, r["predicted_us"], MatmulParams.from_dict(r["params"]))
            for name, r in given.items()]  # fmt: skip


def main() -> None:
    """Measure the job's problems."""
    first = int(sys.argv[1])
    serve(CudaGpu, lambda job, gpu, sampler, write: run_drawn_job(job, first, gpu, sampler, write))


if __name__ == "__main__":
    main()
