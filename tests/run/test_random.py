"""Random problems on random schedules, on the machine against fp32."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from lowering.ground.errors import ScheduleError
from tests.on_machine import NUMPY, Problem, exact, kernel, operands, run
from tests.schedules import LAYOUTS, SCHEDULES, error_limit
from wsched.schedule.matmul.params import Accumulators, SmemSwizzles
from wsched.schedule.options import MmaInputSmemSwizzle

SPANS = st.sampled_from([MmaInputSmemSwizzle.Widest] * 3 + list(MmaInputSmemSwizzle))
eights = st.integers(1, 50).map(lambda n: 8 * n)


@pytest.mark.slow
@given(
    name=st.sampled_from(sorted(SCHEDULES)),
    problem=st.builds(Problem, eights, eights, eights, st.integers(1, 4)),
    operand=st.sampled_from(["bf16", "f16"]),
    result=st.sampled_from(["bf16", "f16", "f32"]),
    layout=st.sampled_from(LAYOUTS),
    swizzles=st.builds(SmemSwizzles, SPANS, SPANS),
    sums=st.sampled_from([Accumulators.Widest] * 3 + [Accumulators.Half]),
    integer=st.booleans(),
    seed=st.integers(0, 1 << 16),
)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=os.environ.get("CI", "") not in ("", "0", "false"),
    database=None,
    # A failure is small already; shrinking it takes minutes.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
def test_any_schedule_computes_any_problem(
    name: str,
    problem: Problem,
    operand: str,
    result: str,
    layout: str,
    swizzles: SmemSwizzles,
    sums: Accumulators,
    integer: bool,
    seed: int,
) -> None:
    assume(computed(name, problem, operand, result, layout, swizzles, sums, integer, seed))


def test_one_problem() -> None:
    told = SmemSwizzles(), Accumulators.Widest, True, 3
    assert computed("pingpong_64x128", Problem(136, 72, 104, 2), "bf16", "f32", "nt", *told)


def computed(
    name: str,
    problem: Problem,
    operand: str,
    result: str,
    layout: str,
    swizzles: SmemSwizzles,
    sums: Accumulators,
    integer: bool,
    seed: int,
) -> bool:
    """Whether there is such a kernel, which has then computed what it should."""
    params = SCHEDULES[name]
    if sums is Accumulators.Half and (operand != "f16" or params.combines):
        return False
    told = replace(params, smem_swizzles=swizzles, accumulators=sums)
    with suppress(ScheduleError):  # spans that a stage of these tiles has not
        kernel(told, operand, result, layout)
        params = told
    if layout[1] != "n" and params.output_tile.n % 16:  # illegal: tests/schedules.py
        return False
    try:
        kernel(params, operand, result, layout)
    except ScheduleError as e:  # what is rounded to another type is computed, a chunk at a time
        if {operand, result} == {"bf16", "f16"} and "registers for this epilogue" in str(e):
            return False
        raise
    ctas = params.cluster_dims.m * params.cluster_dims.n
    problem = replace(problem, sms=ctas * problem.sms)
    a, b = operands(problem, operand, seed, integer)
    d = run(kernel(params, operand, result, layout), problem, a, b, result, seed=seed)
    wanted = exact(a, b)
    if integer:
        assert np.array_equal(d, wanted.astype(NUMPY[result]))
    else:
        error = np.linalg.norm(d.astype(np.float32) - wanted)
        limit = error_limit(operand, result)
        if params.halves:
            limit = max(limit, 6e-4 * max(1, problem.k / 16) ** 0.5)
        assert error < limit * np.linalg.norm(wanted)
    return True
