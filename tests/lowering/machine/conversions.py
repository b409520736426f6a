"""Kernels that convert rows, columns and tiles of every width of groups."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["LARGEST", "arrays", "conversions", "expected"]

TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}

LARGEST = 64
"""Columns of a tile by the columns of a thread's groups."""


def conversions(dtype: str, span: int) -> str:
    """``out = x * y`` of a row and a column of 16 bits, in fp32, and ``half = 2 x``."""
    cols, lanes = LARGEST * span, f"span {span}, lanes 32"
    return f"""
    kernel k threads 128 cluster 1 grid 1 {{
      param n: i32
      global x: {dtype}[1, n] align 2
      global y: {dtype}[32, 1] align 2
      global out: f32[32, n] align 4
      global half: {dtype}[1, n] align 2
      x: frag<{dtype}, 1x{cols}, {lanes}> = frag.load_global x[0, 0]
      y: frag<{dtype}, 32x1, {lanes}> = frag.load_global y[0, 0]
      wide: frag<f32, 1x{cols}, {lanes}> = frag.cast x
      tall: frag<f32, 32x1, {lanes}> = frag.cast y
      product: frag<f32, 32x{cols}, {lanes}> = frag.pointwise mul, wide, tall
      twice: frag<f32, 1x{cols}, {lanes}> = frag.pointwise mul, wide, 2.0
      rounded: frag<{dtype}, 1x{cols}, {lanes}> = frag.cast twice
      frag.store_global out[0, 0], product
      frag.store_global half[0, 0], rounded
    }}
    """


def arrays(dtype: str, columns: int) -> dict[str, np.ndarray]:
    """Its tensors: operands, and results that hold NaN."""
    random, of = np.random.default_rng(columns), TYPES[dtype]
    return {
        "x": random.standard_normal((1, columns)).astype(of),
        "y": random.standard_normal((32, 1)).astype(of),
        "out": np.full((32, columns), np.nan, np.float32),
        "half": np.full((1, columns), np.nan, of),
    }


def expected(given: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """What ``out`` and ``half`` come to."""
    x, y = given["x"].astype(np.float32), given["y"].astype(np.float32)
    return x * y, (x * 2).astype(given["x"].dtype)
