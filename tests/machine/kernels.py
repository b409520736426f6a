"""Kernels for the machine's tests, as text: a small warp-specialized persistent matmul and shapes.

The texts are built from parts so that a test can seed a fault with ``str.replace``.
"""

from __future__ import annotations

import numpy as np

from lowering.ir.text import parse_kernel
from lowering.machine import RunResult, run_kernel


def matmul_text(
    *, groups: int = 1, stages: int = 2, dtype: str = "bf16", out: str = "bf16",
    swizzle: int = 128, cols: int = 64, store_swizzle: int = 128,
) -> str:  # fmt: skip
    """D[M, N] = A[M, K] · B[N, K]ᵀ: a load warp, ``groups`` cooperative warpgroups of 64 rows."""
    k, rows = swizzle // 2, 64 * groups
    a_bytes, b_bytes = rows * swizzle, cols * swizzle
    b_at = a_bytes * stages
    d_at = b_at + b_bytes * stages
    size = 4 if out == "f32" else 2
    # One epilogue buffer for each group: as many columns as a box of the store swizzle has.
    d_cols = store_swizzle // size or cols
    bars = d_at + groups * 64 * d_cols * size
    chunks = cols // d_cols
    op = "st.shared" if out == "f32" else "stmatrix"
    chunk = f"chunk: frag<{out}, 64x{d_cols}>"
    cast = f"frag.cast part{{i}}"
    epilogue = "".join(
        f"""
          part{i}: frag<f32, 64x{d_cols}> = frag.columns done, {i * d_cols}
          {chunk.replace("chunk", f"chunk{i}")} = {cast.format(i=i)}
          if %warpgroup.warp == 0 {{ elect {{ bulk.wait 0, read=true }} }}
          bar.sync store[g]
          {op} d_s[g, 0, 0], chunk{i}
          fence.proxy.async
          bar.sync store[g]
          if %warpgroup.warp == 0 {{ elect {{
            tma.store d[tile_row + g * 64, tile_col + {i * d_cols}], d_s[g, 0, 0]
            bulk.commit
          }} }}"""
        for i in range(chunks)
    )
    steps = "".join(
        f"""
            acc{i + 1}: frag<f32, 64x{cols}, async> = wgmma acc{i}, a_s[stage, g * 64, {16 * i}], \
b_s[stage, 0, {16 * i}]"""
        for i in range(k // 16)
    )
    last = f"acc{k // 16}"
    store = f" swizzle {store_swizzle}" if store_swizzle else ""
    return f"""
kernel matmul threads {128 * (groups + 1)} cluster 1 grid 2 {{
  param M: i32
  param N: i32
  param K: i32
  tensormap a: {dtype}[M, K] box {rows}x{k} swizzle {swizzle}
  tensormap b: {dtype}[N, K] box {cols}x{k} swizzle {swizzle}
  tensormap d: {out}[M, N] box 64x{d_cols}{store}
  shared a_s: {dtype}[{stages}][{rows}x{k}] swizzle {swizzle} at 0
  shared b_s: {dtype}[{stages}][{cols}x{k}] swizzle {swizzle} at {b_at}
  shared d_s: {out}[{groups}][64x{d_cols}]{store} at {d_at}
  mbarrier full[{stages}] arrivals 1 at {bars}
  mbarrier empty[{stages}] arrivals {4 * groups} at {bars + 8 * stages}
  named_barrier store[{groups}] id 1 threads 128
  let ks: i32 = ceildiv(K, {k})
  let rows: i32 = ceildiv(M, {rows})
  let tiles: i32 = rows * ceildiv(N, {cols})
  if %warp == 0 {{ elect {{
    for s in 0 .. {stages} {{
      mbarrier.init full[s], 1
      mbarrier.init empty[s], {4 * groups}
    }}
    fence.mbarrier_init
  }} }}
  cta.sync
  roles {{
    role load warps 0 .. 4 {{
      setmaxnreg dec, 40
      if %warpgroup.warp == 0 {{ elect {{
        for tile in %ctaid.x .. tiles step %nctaid.x carry (ls: i32 = 0 -> ls_, lp: i32 = 0 -> lp_) {{
          for kk in 0 .. ks carry (st: i32 = ls -> st_, ph: i32 = lp -> ph_) {{
            mbarrier.wait empty[st], ph ^ 1
            mbarrier.expect_tx full[st], bytes={a_bytes + b_bytes}
            tma.load a_s[st, 0, 0], a[tile % rows * {rows}, kk * {k}], bar=full[st]
            tma.load b_s[st, 0, 0], b[tile // rows * {cols}, kk * {k}], bar=full[st]
            yield select(st == {stages - 1}, 0, st + 1), select(st == {stages - 1}, ph ^ 1, ph)
          }}
          yield st_, ph_
        }}
      }} }}
    }}
    role compute warps 4 .. {4 + 4 * groups} as g {{
      for tile2 in %ctaid.x .. tiles step %nctaid.x carry (cs: i32 = 0 -> cs_, cp: i32 = 0 -> cp_) {{
        let tile_row: i32 = tile2 % rows * {rows}
        let tile_col: i32 = tile2 // rows * {cols}
        zero: frag<f32, 64x{cols}> = frag.fill 0.0
        for k2 in 0 .. ks carry (stage: i32 = cs -> stage_, parity: i32 = cp -> parity_, \
acc: frag<f32, 64x{cols}> = zero -> done) {{
            mbarrier.wait full[stage], parity
            wgmma.fence{steps.replace("acc0", "acc")}
            wgmma.commit
            sum: frag<f32, 64x{cols}> = wgmma.wait {last}, 0
            elect {{ mbarrier.arrive empty[stage] }}
            yield select(stage == {stages - 1}, 0, stage + 1), \
select(stage == {stages - 1}, parity ^ 1, parity), sum
        }}{epilogue}
        yield stage_, parity_
      }}
      if %warpgroup.warp == 0 {{ elect {{ bulk.wait 0 }} }}
    }}
  }}
  cta.sync
  if %warp == 0 {{ elect {{
    for s2 in 0 .. {stages} {{
      mbarrier.inval full[s2]
      mbarrier.inval empty[s2]
    }}
  }} }}
}}
"""


RAW = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}


def integers(rng: np.random.Generator, rows: int, cols: int, dtype: str) -> np.ndarray:
    """Integers in [-2, 2], in the form that the machine takes."""
    values = rng.integers(-2, 3, (rows, cols)).astype(np.float32)
    return to_dtype(values, dtype)


def to_dtype(values: np.ndarray, dtype: str) -> np.ndarray:
    """float32 as the type: bf16 as raw bits, of values that need no rounding."""
    if dtype == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(RAW[dtype])


def from_dtype(values: np.ndarray, dtype: str) -> np.ndarray:
    """The other way round."""
    if dtype == "bf16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def run_matmul(
    text: str, m: int, n: int, k: int, *, dtype: str = "bf16", out: str = "bf16", grid: int = 2,
    seed: int = 0, adversary: str = "random", trace: bool = False,
) -> tuple[bool, RunResult]:  # fmt: skip
    """Run a matmul of small integers; whether every element is right, and what happened."""
    rng = np.random.default_rng(seed)
    a, b = integers(rng, m, k, dtype), integers(rng, n, k, dtype)
    d = np.full((m, n), np.nan, np.float32)
    d = (d.view(np.uint32) >> 16).astype(np.uint16) if out == "bf16" else d.astype(RAW[out])
    result = run_kernel(
        parse_kernel(text), {"a": a, "b": b, "d": d}, {"M": m, "N": n, "K": k}, grid,
        seed=seed, adversary=adversary, trace=trace,
    )  # fmt: skip
    want = from_dtype(a, dtype) @ from_dtype(b, dtype).T
    return bool(np.array_equal(from_dtype(d, out), want)), result
