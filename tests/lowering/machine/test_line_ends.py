"""TMA ends a line that it clips with zeros up to 16 bytes, as an H200 does (note 0004)."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.machine import run_kernel

TEXT = """
kernel k threads 32 cluster 1 grid 1 {
  param N: i32
  tensormap X: f32[16, N] box 8x8
  shared S: f32[1][8x8] at 0
  mbarrier full[1] arrivals 1 at 256
  elect {
    mbarrier.init full[0], 1
    fence.mbarrier_init
    tma.store X[8, 8], S[0, 0, 0]
    bulk.commit
    bulk.wait 0
  }
}
"""


@pytest.mark.parametrize(("columns", "ended"), [(16, 16), (13, 16), (12, 12), (9, 12)])
def test_lines_end_with_zeros(columns: int, ended: int) -> None:
    """Of the rows that are stored, but for the last one of the matrix, whose end is whose it is."""
    whole = np.ones((16, 24), np.float32)
    run_kernel(parse_kernel(TEXT), {"X": whole[:, :columns]}, {"N": columns}, 1)
    stored = np.ones((16, 24), np.float32)
    stored[8:, 8:columns] = np.nan  # what nobody has written to shared memory
    stored[8:15, columns:ended] = 0
    assert np.array_equal(whole, stored, equal_nan=True)
