"""Sums in tensor memory at odd sizes: tiles, types, layouts and deals that are drawn."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.errors import ScheduleError
from lowering.machine.adversary import Adversary
from tests.epilogues import RESIDUAL
from tests.lowering.ground.expressions import budget
from tests.on_machine import NUMPY, Problem, exact, operands
from tests.on_machine import run as run_linear
from tests.passes.products import machine_code_is_clean
from tests.proofs import proved
from tests.run.test_epilogue_inputs import FOUR, load_warps, run
from tests.schedules import LAYOUTS, definition, dynamic, in_tensor_memory
from wsched.front.known import import_fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.params import MatmulParams

SMALL = in_tensor_memory(128, 32, 32, stages=2, epilogue_stages=1)


@lru_cache
def made(params: MatmulParams, operand: str, result: str, layout: str) -> CompiledFusion | None:
    """The kernel; None where the parameters are illegal, with a reason."""
    fusion = import_fusion(definition(operand, result, layout=layout))
    try:
        return compile_fusion(fusion, params)
    except ScheduleError as e:
        assert e.why
        return None


@st.composite
def drawn(draw: Any) -> MatmulParams:
    """Small tiles: two blocks of rows or one, few stages."""
    m, n = draw(st.sampled_from((128, 256))), draw(st.sampled_from((16, 32, 48, 64, 128)))
    found = in_tensor_memory(
        m, n, draw(st.sampled_from((16, 32, 64))), stages=draw(st.integers(2, 4)),
        epilogue_stages=1 + (n == 128), use_smem_epilogue=draw(st.booleans()),
        grid_traversal_factor=draw(st.sampled_from(((1, 1), (2, 1)))),
    )  # fmt: skip
    return dynamic(found) if draw(st.booleans()) else found


@pytest.mark.slow
@given(
    params=drawn(),
    types=st.sampled_from((("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"))),
    layout=st.sampled_from(LAYOUTS),
    m=st.integers(1, 40),
    n=st.integers(1, 16),
    k=st.integers(0, 20),
    sms=st.integers(1, 4),
    seed=st.integers(0, 1 << 16),
    adversary=st.sampled_from(("random", "lazy", "eager")),
)
@budget(32)
def test_right(
    params: MatmulParams,
    types: tuple[str, str],
    layout: str,
    m: int,
    n: int,
    k: int,
    sms: int,
    seed: int,
    adversary: Adversary,
) -> None:
    kernel = made(params, *types, layout)
    if kernel is None:
        return
    p = Problem(m * 8, n * 8, k * 8, sms)
    a, b = operands(p, types[0], seed, integer=True)
    d = run_linear(kernel, p, a, b, types[1], seed=seed, adversary=adversary)
    assert np.array_equal(d, exact(a, b).astype(NUMPY[types[1]])), p


@pytest.mark.sampled(1)
@pytest.mark.parametrize("params", [SMALL, dynamic(SMALL)], ids=["in turn", "queue"])
@pytest.mark.parametrize(
    ("text", "matrices"), [(RESIDUAL, 1), (FOUR, 4)], ids=["residual", "four matrices"]
)
def test_matrices_of_the_epilogue(text: str, matrices: int, params: MatmulParams) -> None:
    """Of four warps one loads operands, one multiplies and one may fetch tiles: what is left loads
    for the epilogue, whose threads read the others themselves.
    """
    kernel = compile_fusion(import_fusion(text), params)
    first, *others = [maps for maps in load_warps(kernel) if maps]
    assert first == {"T0", "T1"} and len(others) == min(matrices, 2 - params.dynamic)
    for p, adversary in ((Problem(265, 40, 72, 2), "lazy"), (Problem(128, 32, 32, 1), "random")):
        d, (a, b, *more) = run(kernel, p, adversary=adversary)
        wanted = (a @ b.T + sum(more)).astype(NUMPY["bf16"]).astype(np.float32)
        assert np.array_equal(d, wanted), (p, adversary)
    assert machine_code_is_clean(kernel.kernel)
    proved(kernel.kernel, kernel.plan)
