"""The fragment layout against the formula of ``FragmentType``."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.ground.dtypes import DType
from lowering.ground.types import FragmentType
from lowering.machine.fragment import (
    block_to_lanes,
    convert,
    element_rows_cols,
    filled,
    lane_rows,
)


def formula(rows: int, cols: int, warp: int) -> np.ndarray:
    """[32 lanes, blocks, cols / 8, 4, 2]: row and column of each element, by the docstring."""
    out = np.empty((32, rows // 64, cols // 8, 4, 2), int)
    for lane in range(32):
        for b in range(rows // 64):
            for j in range(cols // 8):
                row, col = 64 * b + 16 * warp + lane // 4, 8 * j + 2 * (lane % 4)
                out[lane, b, j] = [(row, col), (row, col + 1), (row + 8, col), (row + 8, col + 1)]
    return out


@pytest.mark.parametrize("warp", range(4))
def test_lanes_hold_what_the_formula_says(warp: int) -> None:
    rows, cols = 128, 24
    matrix = np.arange(rows * cols).reshape(rows, cols)
    want = formula(rows, cols, warp)
    for block in range(2):
        first = 64 * block + 16 * warp
        lanes = block_to_lanes(matrix[first : first + 16])
        at = want[:, block]
        assert np.array_equal(lanes.reshape(32, cols // 8, 4), matrix[at[..., 0], at[..., 1]])


@pytest.mark.parametrize("warp", range(4))
def test_matrix_rows_come_back(warp: int) -> None:
    type_ = FragmentType(DType.F32, 128, 24)
    matrix = np.arange(128 * 24).reshape(128, 24)
    at = formula(128, 24, warp)
    data = matrix[at[..., 0], at[..., 1]].reshape(32, 2, 3, 2, 2)
    rows, cols = element_rows_cols(type_, warp)
    assert np.array_equal(lane_rows(data), matrix[rows[..., None], cols[..., None] + np.arange(8)])


def test_filled() -> None:
    data = filled(FragmentType(DType.BF16, 64, 16), 1.0)
    assert data.shape == (32, 1, 2, 2, 2)
    assert data.dtype == np.uint16
    assert (data == 0x3F80).all()


def test_bf16_rounds_to_nearest_even() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1 << 32, 4096, dtype=np.uint32).view(np.float32)
    halves = (np.arange(64, dtype=np.uint32) << 16 | 0x3F80_8000).view(np.float32)
    values = np.concatenate([values[~np.isnan(values)], halves, np.float32([0.0, -0.0])])
    with np.errstate(over="ignore"):
        want = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert np.array_equal(convert(values, DType.F32, DType.BF16), want)
    assert convert(np.float32([np.nan]), DType.F32, DType.BF16)[0] == 0x7FFF


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
def test_16_bit_types_survive_float32(dtype: DType) -> None:
    bits = np.arange(0x7C00, dtype=np.uint16)
    assert np.array_equal(convert(convert(bits, dtype, DType.F32), DType.F32, dtype), bits)
