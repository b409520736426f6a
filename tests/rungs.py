"""Rungs of the ladder, scheduled and compiled, and run on the machine."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.machine.adversary import Adversary
from lowering.machine.run import RunResult, run_kernel
from lowering.target.targets import DEFAULT, named
from tests.on_machine import NUMPY, Problem, exact, operands
from wsched import Schedule
from wsched.front.own import kernel_of
from wsched.ladder.climb import Step
from wsched.ladder.rungs import RUNGS
from wsched.run.compiled import CompiledFusion

__all__ = ["NUMBERS", "kernel", "ran", "scheduled"]

NUMBERS = [r.number for r in RUNGS]


def scheduled(number: int, target: str = DEFAULT.arch) -> Schedule:
    """A rung's schedule, the caller's own."""
    return Step(RUNGS[number - 1], None, named(target)).schedule


@lru_cache
def kernel(number: int, target: str = DEFAULT.arch) -> CompiledFusion:
    """A rung's kernel; made once."""
    return kernel_of(scheduled(number, target))


def ran(
    made: CompiledFusion,
    p: Problem,
    seed: int,
    adversary: Adversary = "random",
    resident: int | None = None,
    kernel: Kernel | None = None,
) -> RunResult:
    """A run with integers, whose result is exact; of ``kernel`` in the place of what is made."""
    a, b = operands(p, "bf16", seed, integer=True)
    d = np.full((p.m, p.n), np.nan, NUMPY["bf16"])
    names = [x.tensor for x in (*made.fusion.inputs, *made.fusion.outputs)]
    extents = {"M": p.m, "N": p.n, "K": p.k}
    found = run_kernel(
        kernel or made.kernel, dict(zip(names, (a, b, d), strict=True)), extents,
        evaluate(made.kernel.grid, {**extents, "sms": p.sms}),
        adversary=adversary, resident=resident,
    )  # fmt: skip
    assert np.array_equal(d, exact(a, b).astype(NUMPY["bf16"]))
    return found
