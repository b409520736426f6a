"""Every schedule on the machine: right on small problems, whatever the order of events."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from lowering.machine.adversary import Adversary, Order
from tests.on_machine import NUMPY, Problem, exact, kernel, operands, run
from tests.schedules import QUICK, SCHEDULES, cooperative, error_limit, ping_pong, split_k, stream_k
from tests.tiers import in_tiers
from wsched.run.compiled import CompiledFusion
from wsched.schedule.matmul.params import MatmulParams

ORDERS: list[tuple[Adversary, int]] = [
    ("eager", 0),
    ("lazy", 0),
    ("random", 0),
    ("random", 1),
    ("fair", 0),
]
"""Only the random order depends on the seed."""


def problems(params: MatmulParams) -> dict[str, Problem]:
    """Small problems of each kind that has gone wrong in kernels of this family."""
    t, stages = params.output_tile, params.circular_buffer_options.smem_circular_buffer_stage
    ctas = params.cluster_dims.m * params.cluster_dims.n
    return {
        # One tile: in ping-pong the second group has none. One k step, not a full one.
        "single_tile": Problem(t.m, t.n, 8, ctas),
        # Tails in all dimensions; six tiles on two CTAs, three each: odd for ping-pong.
        "tails": Problem(2 * t.m + 9, t.n + 8, t.k + 8, 2 * ctas),
        # Nothing but a tail, and the ring goes round.
        "long_k": Problem(t.m - 8, t.n - 8, (stages + 2) * t.k + 8, 3 * ctas),
        # Two tiles for one CTA and one for the others; as many k steps as stages.
        "uneven": Problem(t.m // 2 + 1, 3 * t.n + 8, stages * t.k, 3 * ctas),
        # No k step: the epilogue of zero.
        "empty_k": Problem(t.m + 1, t.n, 0, ctas),
    }


@pytest.fixture(scope="module", params=in_tiers(SCHEDULES, QUICK))
def bf16(request: pytest.FixtureRequest) -> CompiledFusion:
    return kernel(SCHEDULES[request.param])


@pytest.mark.sampled
@pytest.mark.parametrize("kind", in_tiers(problems(MatmulParams()), {"tails", "uneven"}))
def test_integers_are_exact_in_every_order(bf16: CompiledFusion, kind: str) -> None:
    problem = problems(bf16.params)[kind]
    assert {a for a, _ in ORDERS} == set(get_args(Order))
    for adversary, seed in ORDERS if kind in ("single_tile", "tails") else ORDERS[1:4:2]:
        a, b = operands(problem, "bf16", seed, integer=True)
        d = run(bf16, problem, a, b, "bf16", seed=seed, adversary=adversary)
        wanted = exact(a, b).astype(NUMPY["bf16"])
        assert np.array_equal(d, wanted), (adversary, seed)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("operand", "result"), [("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32"), ("f16", "bf16")]
)
@pytest.mark.parametrize(
    "name", ["coop_128x256", "coop_k128", "tile_per_cta", "pingpong_64x256", "pingpong_128x128"]
)
def test_real_numbers(name: str, operand: str, result: str) -> None:
    compiled = kernel(SCHEDULES[name], operand, result)
    problem = problems(compiled.params)["tails"]
    a, b = operands(problem, operand, 0, integer=False)
    d = run(compiled, problem, a, b, result).astype(np.float32)
    wanted = exact(a, b)
    assert np.linalg.norm(d - wanted) < error_limit(operand, result) * np.linalg.norm(wanted)


@pytest.mark.parametrize("name", in_tiers(SCHEDULES, QUICK))
def test_wide_results_are_exact(name: str) -> None:
    compiled = kernel(SCHEDULES[name], "f16", "f32")
    problem = problems(compiled.params)["single_tile"]
    a, b = operands(problem, "f16", 0, integer=True)
    assert np.array_equal(run(compiled, problem, a, b, "f32"), exact(a, b))


def test_a_wrong_kernel_is_noticed() -> None:
    compiled = kernel(SCHEDULES["coop_128x64"])
    problem = Problem(128, 64, 64, 1)
    a, b = operands(problem, "bf16", 0, integer=True)
    d = run(compiled, problem, a[:, ::-1].copy(), b, "bf16")
    assert not np.array_equal(d, exact(a, b).astype(NUMPY["bf16"]))


ONE_STAGE = {
    "tile_per_cta": cooperative(128, 128, stages=1, in_flight=0, persistent=False),
    "pingpong": ping_pong(64, 128, stages=1, in_flight=0),
    "cluster": cooperative(128, 128, stages=1, in_flight=0, cluster=(2, 1)),
    "split": split_k(cooperative(128, 128, stages=1, in_flight=0), 2),
    "stream_k": stream_k(ping_pong(64, 128, stages=1, in_flight=0)),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", ONE_STAGE)
@pytest.mark.parametrize("kind", ["tails", "empty_k"])
def test_one_stage(name: str, kind: str) -> None:
    """A step is loaded when the one in front of it has been read, whoever reads and loads it."""
    compiled = kernel(ONE_STAGE[name])
    problem = problems(compiled.params)[kind]
    for adversary, seed in ORDERS[1:4]:
        a, b = operands(problem, "bf16", seed, integer=True)
        d = run(compiled, problem, a, b, "bf16", seed=seed, adversary=adversary)
        assert np.array_equal(d, exact(a, b).astype(NUMPY["bf16"])), (adversary, seed)
