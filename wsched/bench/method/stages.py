"""Many systems in two stages: all of them for a short time, then the fastest ones as planned."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from wsched.bench.method.measure import Gpu, Plan, Sampler, Tell, measure_shape
from wsched.bench.problem import Problem

__all__ = ["FirstStage", "Measured", "measure_in_stages"]

Systems = Mapping[str, dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class FirstStage:
    """What comes in front of the measurement.

    Args:
        rounds: how many.
        share: how long a system runs in one, as a share of the second stage's time.
        finalists: how many of the fastest systems are measured again.
    """

    rounds: int
    share: float
    finalists: int

    def __str__(self) -> str:
        return f"{self.rounds} rounds of {self.share:g} of the time"

    def shortened(self, plan: Plan) -> Plan:
        """The plan of the first stage, from the second one's; energy is left to that."""
        return replace(plan, rounds=self.rounds, replay_ms=plan.replay_ms * self.share, energy_s=0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What both stages found out.

    Args:
        sets: of operands.
        scores: by system, those of :func:`~wsched.bench.method.measure.measure_shape` from the
            last stage that it was in. ``first_us`` is the median of the first stage in us, if that
            ended well; ``times_us`` are the second one's rounds, if it was in that.
        again: systems of the second stage.
        clocks: of the second stage.
    """

    sets: int
    scores: dict[str, dict[str, Any]]
    again: tuple[str, ...]
    clocks: dict[str, Any]


def measure_in_stages(
    gpu: Gpu,
    problem: Problem,
    systems: Systems,
    always: Collection[str],
    beside: Collection[str],
    first: FirstStage | None,
    plan: Plan,
    sampler: Sampler,
    tell: Tell,
    seed: int,
) -> Measured:
    """Measure systems in two stages.

    Args:
        gpu: the device.
        problem: what to compute.
        systems: as for :func:`~wsched.bench.method.measure.measure_shape`.
        always: those that run again however slow they were, if they ran at all.
        beside: those that are none of the finalists, however fast.
        first: the first stage; None measures all once, as planned.
        plan: of the second stage.
        sampler: clocks and power beside the rounds.
        tell: see :class:`~wsched.bench.method.measure.Tell`; a step says its stage.
        seed: of the order in the rounds.

    Raises:
        Broken: the CUDA context is lost.
    """
    scores: dict[str, dict[str, Any]] = {name: {} for name in systems}
    again = dict(systems)
    if first is not None:
        short = first.shortened(plan)
        stage = measure_shape(gpu, problem, again, short, sampler, _staged(tell, "all"), seed)
        for name, score in stage["systems"].items():
            scores[name] = {k: v for k, v in score.items() if k != "times_us"}
            if score["status"] == "ok":
                scores[name]["first_us"] = median(score["times_us"])
        us = {name: r["first_us"] for name, r in scores.items() if "first_us" in r}
        rivals = [name for name in us if name not in beside]
        best = sorted(rivals, key=us.__getitem__)[: first.finalists]
        again = {n: p for n, p in systems.items() if n in us and n in {*always, *best}}
    last = measure_shape(gpu, problem, again, plan, sampler, _staged(tell, "best"), seed)
    for name, score in last["systems"].items():
        scores[name] |= score
    return Measured(last["sets"], scores, tuple(again), last["clocks"])


def _staged(tell: Tell, stage: str) -> Tell:
    """The same, for the steps of one of two stages."""

    def say(system: str, step: str, seconds: float = 0.0) -> None:
        tell(system, f"{stage}: {step}", seconds)

    return say
