"""200 random problems: the heuristic's choice and random schedules, none wrong."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.gpu.cases import check, draw, prepare
from tests.gpu.watchdog import watchdog

pytestmark = pytest.mark.gpu

COUNT = 200


@pytest.fixture(scope="module")
def prepared(terminal: int) -> Any:
    """All kernels, compiled several at once before the first test."""
    with watchdog(300, "compiling the kernels of the random problems", terminal):
        return prepare([draw(seed) for seed in range(COUNT)], threads=os.cpu_count() or 1)


@pytest.mark.parametrize("seed", range(COUNT))
def test_random_problem(prepared: Any, seed: int) -> None:
    case = draw(seed)
    assert check(case) == "", case
