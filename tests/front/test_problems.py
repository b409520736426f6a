"""What the heuristic is asked of a call: how the epilogue's inputs are read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.epilogues import RESIDUAL
from wsched.front.problems import planned

torch: Any = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("columns", "stride", "loaded", "pairs"),
    [
        pytest.param(32, 32, True, True, id="by TMA"),
        pytest.param(34, 34, False, True, id="by threads"),
        pytest.param(34, 35, False, False, id="by threads, every other row at an odd element"),
        pytest.param(33, 40, True, False, id="an odd number, of the result too"),
    ],
)
def test_whether_threads_read_and_write_pairs(
    columns: int, stride: int, loaded: bool, pairs: bool
) -> None:
    """What they read of the epilogue's matrices counts where TMA does not load these."""
    x, w, r = (
        torch.empty(rows, cols, dtype=torch.bfloat16)
        for rows, cols in ((64, 64), (columns, 64), (64, stride))
    )
    _, problem = planned(RESIDUAL, [x, w, r[:, :columns]])
    assert (problem.inputs is not None, problem.pairs) == (loaded, pairs)
