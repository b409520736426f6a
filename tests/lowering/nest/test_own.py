"""Schedules of other forms than the matmul scheduler's run right on the machine."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from lowering.machine.adversary import Adversary
from tests.lowering.nest.own import OWN
from tests.on_machine import NUMPY, Problem, exact, operands, run
from tests.tiers import dealt
from wsched.front.own import kernel_of
from wsched.run.compiled import CompiledFusion

PROBLEMS = {
    "tails": Problem(201, 264, 456, 2),
    "more_ctas_than_tiles": Problem(72, 136, 136, 7),
    "one_tile": Problem(64, 64, 64, 1),
    "no_k": Problem(136, 72, 0, 2),
    "long_k": Problem(64, 136, 1032, 1),
}


@lru_cache
def kernel(name: str) -> CompiledFusion:
    return kernel_of(OWN[name]())


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "kind"), dealt(OWN, list(PROBLEMS)))
def test_integers_are_exact(name: str, kind: str) -> None:
    problem = PROBLEMS[kind]
    orders: tuple[Adversary, ...] = ("lazy", "random") if kind == "tails" else ("random",)
    for order in orders:
        a, b = operands(problem, "bf16", 3, integer=True)
        d = run(kernel(name), problem, a, b, "bf16", adversary=order)
        assert np.array_equal(d, exact(a, b).astype(NUMPY["bf16"])), order
