"""Kernels that reduce a matrix, in IR text, and the sums in the order that the nodes state."""

from __future__ import annotations

import numpy as np

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

IDENTITY = {"sum": "0.0", "max": "-inf", "min": "inf"}
RED = {"sum": "add", "max": "max", "min": "min"}

FOUR = """
kernel four threads 256 cluster 1 grid ceildiv(M, 128) {{
  param M: i32
  param N: i32
  global x: f32[M, N] align {align}
  global d: f32[M, N] align {align}
  global column: f32[M, 1]
  global row: f32[ceildiv(M, 128), N] align {align}
  global one: f32[1, 1]
  shared meeting: f32[2][8x64] at 0
  named_barrier all[1] id 1 threads 256
  roles {{
    role compute warps 0 .. 8 as group {{
      let first: i32 = %ctaid.x * 128 + group * 64
      rows: frag<pred, 64x1> = frag.below M - first
      down: frag<f32, 64x1> = frag.fill {identity}
      for c in 0 .. N step 64 carry (so_far: frag<f32, 64x1> = down -> column_total) {{
        x0: frag<f32, 64x64> = frag.load_global x[first, c]
        doubled: frag<f32, 64x64> = frag.pointwise mul, x0, 2.0
        frag.store_global d[first, c], doubled
        columns: frag<pred, 1x64> = frag.below N - c
        inside: frag<pred, 64x64> = frag.pointwise logical_and, rows, columns
        kept: frag<f32, 64x64> = frag.pointwise where, inside, x0, {identity}
        next: frag<f32, 64x1> = frag.reduce {op}, so_far, kept
        let stage: i32 = c // 64 % 2
        frag.reduce_to_shared {op}, meeting[stage, group * 4, 0], kept
        bar.sync all[0]
        right: frag<f32, 1x64> = frag.fill {identity}
        sums: frag<f32, 1x64> = frag.reduce_from_shared {op}, right, meeting[stage, 0, 0], 8
        if group == 0 {{ frag.store_global row[%ctaid.x, c], sums }}
        yield next
      }}
      frag.store_global column[first, 0], column_total, limit=M - first
      bar.sync all[0]
      frag.reduce_to_shared {op}, meeting[0, group * 4, 8], column_total
      bar.sync all[0]
      none: frag<f32, 1x1> = frag.fill {identity}
      total: frag<f32, 1x1> = frag.reduce_from_shared {op}, none, meeting[0, 0, 8], 8
      if group == 0 {{ frag.red_global {red}, one[0, 0], total{any_order} }}
    }}
  }}
}}
"""


def four_shapes(op: str, align: int = 4) -> Kernel:
    """A matrix, and of each 128 rows: what each row, each column and all of it is reduced to."""
    text = FOUR.format(
        op=op, identity=IDENTITY[op], red=RED[op], align=align,
        any_order=", any_order=true" if op == "sum" else "",
    )  # fmt: skip
    kernel = parse_kernel(text)
    assert verify(kernel) == []
    return kernel


def tensors(m: int, n: int, op: str, seed: int = 0) -> dict[str, np.ndarray]:
    """A random matrix, results of NaN, and where CTAs meet the neutral element."""
    x = np.random.default_rng(seed).standard_normal((m, n)).astype(np.float32)
    made = {name: np.full(shape, np.nan, np.float32) for name, shape in (
        ("d", (m, n)), ("column", (m, 1)), ("row", (-(-m // 128), n)),
    )}  # fmt: skip
    return {"x": x, **made, "one": np.full((1, 1), float(IDENTITY[op]), np.float32)}


def row_sums(x: np.ndarray) -> np.ndarray:
    """Sums of rows of 64-column chunks, in fp32, as ``frag.reduce`` adds: ``[rows, 1]``."""
    total = np.zeros(len(x), np.float32)
    for c in range(0, x.shape[1], 64):
        chunk = np.zeros((len(x), 64), np.float32)
        width = min(64, x.shape[1] - c)
        chunk[:, :width] = x[:, c : c + width]
        lanes = []
        for lane in range(4):
            low, high = chunk[:, 2 * lane].copy(), chunk[:, 2 * lane + 1].copy()
            for group in range(1, 8):
                low += chunk[:, 8 * group + 2 * lane]
                high += chunk[:, 8 * group + 2 * lane + 1]
            lanes.append(low + high)
        total = total + ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]))
    return total[:, None]


def column_sums(x: np.ndarray, rows: int = 128) -> np.ndarray:
    """Sums of columns of each ``rows`` rows, in fp32, as they are added from warp to warp."""
    found = []
    for first in range(0, len(x), rows):
        part = np.zeros((rows, x.shape[1]), np.float32)
        part[: min(rows, len(x) - first)] = x[first : first + rows]
        total = np.zeros(x.shape[1], np.float32)
        for warp in range(rows // 16):
            own = part[16 * warp : 16 * warp + 16]
            lanes = own[:8] + own[8:]
            pairs = lanes[0::2] + lanes[1::2]
            total = (
                total + ((pairs[0] + pairs[1]) + (pairs[2] + pairs[3]))
                if warp
                else ((pairs[0] + pairs[1]) + (pairs[2] + pairs[3]))
            )
        found.append(np.float32(0) + total)
    return np.array(found)
