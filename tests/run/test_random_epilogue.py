"""Random epilogues on random inputs, on the machine, within bounds derived in fp64."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import wsched

pytest.importorskip("torch", reason="torch is not installed")

from tests.random_epilogue import F64, RandomEpilogue

OPS = 12


def test_one_epilogue() -> None:
    within_bounds(7, 72, 40, 24)


@pytest.mark.slow
@given(
    seed=st.integers(0, 1 << 20),
    m=st.integers(1, 140),
    n=st.integers(1, 18).map(lambda n: 8 * n),
    k=st.integers(0, 9).map(lambda k: 8 * k),
)
@settings(
    max_examples=int(os.environ.get("WSCHED_EXAMPLES", "25")),
    deadline=None,
    derandomize=os.environ.get("CI", "") not in ("", "0", "false"),
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
def test_any_epilogue(seed: int, m: int, n: int, k: int) -> None:
    within_bounds(seed, m, n, k)


def within_bounds(seed: int, m: int, n: int, k: int) -> None:
    """A case that is executed, its results against their bounds."""
    case = RandomEpilogue(seed, m, n, k, OPS)
    for got, wanted in zip(wsched.execute(case.text, case.inputs), case.outputs, strict=True):
        off = (got.to(F64) - wanted.exact).abs() - wanted.bound
        assert off.max() <= 0, f"{wanted.name} is off by {off.max():.3g} in\n{case.text}"
