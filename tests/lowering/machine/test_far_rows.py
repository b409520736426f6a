"""Rows that lie more than 2**31 elements behind the first one, in memory that is mostly a hole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.machine import run_kernel

ROWS, STRIDE = 128, 2**25 + 8
KERNEL = """kernel far threads 128 cluster 1 grid 1 {
  global x: f16[128, 8] align 4
  global y: f16[128, 8]
  for i in 0 .. 2 {
    t: frag<f16, 64x8> = frag.load_global x[64 - i * 64, 0]
    frag.store_global y[i * 64, 0], t
  }
}"""


@pytest.mark.slow
def test_rows_far_apart(tmp_path: Path) -> None:
    """A sparse file: 17 GB long, of which the rows are stored."""
    far = [
        np.lib.stride_tricks.as_strided(
            np.memmap(tmp_path / name, np.float16, "w+", shape=(ROWS * STRIDE,)),
            (ROWS, 8), (2 * STRIDE, 2),
        )
        for name in ("x", "y")
    ]  # fmt: skip
    assert (ROWS - 1) * STRIDE > 2**31
    values = np.arange(ROWS * 8, dtype=np.float16).reshape(ROWS, 8)
    far[0][:] = values
    run_kernel(parse_kernel(KERNEL), dict(zip("xy", far, strict=True)), {}, 1)
    assert np.array_equal(far[1], np.concatenate([values[64:], values[:64]]))
