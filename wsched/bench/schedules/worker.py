"""A fresh process that measures rankings: ``python -m wsched.bench.schedules.worker TOP``.

TOP is how many of a ranking's first schedules are measured, 0 for all. Standard input and output
are those of :mod:`wsched.bench.gemm.worker`; systems are schedules under their names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from wsched.bench.gemm.worker import Measure, Write, measure_each, serve
from wsched.bench.method.gpu import CudaGpu
from wsched.bench.method.measure import Gpu, Plan, Sampler, Tell
from wsched.bench.method.stages import FirstStage, measure_in_stages
from wsched.bench.problem import Problem, Shape, definition_text
from wsched.bench.schedules.ranking import Ranked, problem_for, taken_first
from wsched.choose.problem import Problem as Planned
from wsched.choose.tuned.entry import problem_to_dict

__all__ = ["FIRST", "DescribedGpu", "main", "measure_ranking", "planned_on", "run_ranking_job"]

FIRST = FirstStage(rounds=2, share=0.2, finalists=8)


def of_all(definition: str, planned: Planned, top: int) -> list[Ranked]:
    """What ``wsched.compile`` takes, and the best-ranked others."""
    return taken_first(definition, planned)[: top or None]


Listed = Callable[[str, Planned, int], list[Ranked]]
"""Schedules to measure, from a definition, the problem that is planned for, and how many."""


class DescribedGpu(Gpu, Protocol):
    """A device that says what it is."""

    def describe(self) -> dict[str, Any]:
        """Return at least ``name`` and ``sms``."""


def measure_ranking(
    gpu: Gpu,
    problem: Problem,
    found: Sequence[Ranked],
    excluded: Collection[str],
    plan: Plan,
    sampler: Sampler,
    tell: Tell,
    seed: int,
    first: FirstStage = FIRST,
) -> dict[str, Any]:
    """Measure schedules in two stages.

    All run in a few short rounds; the fastest and the first, which is what is taken, then run as
    ``plan`` says, in rounds of their own.

    Args:
        gpu: the device.
        problem: the matmul.
        found: schedules, best-ranked first.
        excluded: names that are not measured.
        plan: of the second stage.
        sampler: clocks and power beside the rounds.
        tell: see :class:`wsched.bench.method.measure.Tell`.
        seed: of the order in the rounds.
        first: the first stage.

    Returns:
        ``{"sets", "choice", "systems": {name: score}, "finalists", "clocks"}``: the clocks of the
        second stage, and by name the parameters of those in it, as they were asked for.
        A score has ``rank`` (from 1), ``predicted_us``, ``status``, ``reason``, ``details``;
        ``first_us``, the median of the first stage, if that ended well, and ``times_us`` of the
        second one's rounds if it was in that.

    Raises:
        Broken: the CUDA context is lost.
    """
    systems = {r.name: r.params.to_dict() for r in found if r.name not in excluded}
    stages = measure_in_stages(
        gpu, problem, systems, {found[0].name}, (), first, plan, sampler, tell, seed,
    )  # fmt: skip
    scores = {
        r.name: {"rank": rank, "predicted_us": r.us, **_without_resources(stages.scores[r.name])}
        for rank, r in enumerate(found, 1)
        if r.name in systems
    }
    return {
        "sets": stages.sets, "choice": found[0].name, "systems": scores,
        "finalists": {n: systems[n] for n in stages.again}, "clocks": stages.clocks,
    }  # fmt: skip


def _without_resources(score: dict[str, Any]) -> dict[str, Any]:
    details = {k: v for k, v in score["details"].items() if k != "resources"}
    return {**score, "details": details}


def run_ranking_job(
    job: dict[str, Any],
    top: int,
    gpu: DescribedGpu,
    sampler: Sampler,
    write: Write,
    definition: Callable[[Problem], str] = definition_text,
    first: FirstStage = FIRST,
    listed: Listed = of_all,
) -> None:
    """Measure the job's shapes one after another; see :func:`wsched.bench.gemm.worker.run_job`.

    The job's systems do not matter; what it excludes are names of schedules. A result has the
    problem that was planned for, too.

    Args:
        job: shapes and plan.
        top: how many of the best-ranked schedules, 0 for all.
        gpu: the device, which has the operands of the definition.
        sampler: of clocks and power.
        write: takes the events.
        definition: the text of the fusion.
        first: the first stage.
        listed: what is measured, from the text, the planned problem and ``top``.
    """
    plan, seed, planned_for = Plan(**job["plan"]), job["seed"], planned_on(gpu)

    def ready(shape: Shape, excluded: Collection[str], tell: Tell) -> Measure:
        problem = Problem(shape, job["dtype"], job["layout"])
        text = definition(problem)
        planned = planned_for(text, shape)
        found = listed(text, planned, top)
        return lambda: {
            **measure_ranking(gpu, problem, found, excluded, plan, sampler, tell, seed, first),
            "problem": problem_to_dict(planned),
        }

    measure_each(job, write, Shape, ready)


def planned_on(gpu: DescribedGpu) -> Callable[[str, Shape], Planned]:
    """What the model is asked about a definition and a shape on this device."""
    device = gpu.describe()
    sms, name = int(device["sms"]), device["name"]
    return lambda definition, shape: problem_for(definition, shape, sms, gpu.l2_bytes, name)


def main() -> None:
    """Measure the rankings of the job's shapes."""
    top = int(sys.argv[1])
    serve(CudaGpu, lambda job, gpu, sampler, write: run_ranking_job(job, top, gpu, sampler, write))


if __name__ == "__main__":
    main()
