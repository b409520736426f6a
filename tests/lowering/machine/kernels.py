"""A small warp-specialized persistent matmul as kernel IR text, and how to run and check it.

A test seeds a fault with ``str.replace`` on the text.
"""

from __future__ import annotations

from string import Template

import numpy as np

from lowering.kernel.text import parse_kernel
from lowering.machine import RunResult, run_kernel

MATMUL = Template("""
kernel matmul threads $threads cluster 1 grid 2 {
  param M: i32
  param N: i32
  param K: i32
  tensormap a: $dtype[M, K] box ${rows}x$k swizzle $swizzle
  tensormap b: $dtype[N, K] box ${cols}x$k swizzle $swizzle
  tensormap d: $out[M, N] box 64x$d_cols$d_swizzle
  shared a_s: $dtype[$stages][${rows}x$k] swizzle $swizzle at 0
  shared b_s: $dtype[$stages][${cols}x$k] swizzle $swizzle at $b_at
  shared d_s: $out[$groups][64x$d_cols]$d_swizzle at $d_at
  mbarrier full[$stages] arrivals 1 at $full_at
  mbarrier empty[$stages] arrivals $arrivals at $empty_at
  named_barrier store[$groups] id 1 threads 128
  let ks: i32 = ceildiv(K, $k)
  let rows: i32 = ceildiv(M, $rows)
  let tiles: i32 = rows * ceildiv(N, $cols)
  on %warp 0 { elect {
    for s in 0 .. $stages {
      mbarrier.init full[s], 1
      mbarrier.init empty[s], $arrivals
    }
    fence.mbarrier_init
  } }
  cta.sync
  roles {
    role load warps 0 .. 4 {
      $dec
      on %warpgroup.warp 0 { elect {
        for tile in %ctaid.x .. tiles step %nctaid.x
            carry (s0: i32 = 0 -> s0_, p0: i32 = 0 -> p0_) {
          for k in 0 .. ks carry (stage: i32 = s0 -> stage_, parity: i32 = p0 -> parity_) {
            mbarrier.wait empty[stage], parity ^ 1
            mbarrier.expect_tx full[stage], bytes=$bytes
            tma.load a_s[stage, 0, 0], a[tile % rows * $rows, k * $k], bar=full[stage]
            tma.load b_s[stage, 0, 0], b[tile // rows * $cols, k * $k], bar=full[stage]
            let last: pred = stage == $last
            yield select(last, 0, stage + 1), select(last, parity ^ 1, parity)
          }
          yield stage_, parity_
        }
      } }
    }
    role compute warps 4 .. $warps as g {
      $inc
      for tile2 in %ctaid.x .. tiles step %nctaid.x
          carry (s1: i32 = 0 -> s1_, p1: i32 = 0 -> p1_) {
        let row: i32 = tile2 % rows * $rows + g * 64
        let col: i32 = tile2 // rows * $cols
        zero: frag<f32, 64x$cols> = frag.fill 0.0
        for k2 in 0 .. ks carry (stage2: i32 = s1 -> stage2_, parity2: i32 = p1 -> parity2_,
            acc0: frag<f32, 64x$cols> = zero -> done) {
          mbarrier.wait full[stage2], parity2
          wgmma.fence
$wgmmas
          wgmma.commit
          sum: frag<f32, 64x$cols> = wgmma.wait acc$steps, 0
          elect { mbarrier.arrive empty[stage2] }
          let last2: pred = stage2 == $last
          yield select(last2, 0, stage2 + 1), select(last2, parity2 ^ 1, parity2), sum
        }
$chunks
        yield stage2_, parity2_
      }
      on %warpgroup.warp 0 { elect { bulk.wait 0 } }
    }
  }
  cta.sync
  on %warp 0 { elect {
    for s2 in 0 .. $stages {
      mbarrier.inval full[s2]
      mbarrier.inval empty[s2]
    }
  } }
}
""")

WGMMA = Template(
    "          acc$next: frag<f32, 64x$cols, async> = "
    "wgmma acc$i, a_s[stage2, g * 64, $k], b_s[stage2, 0, $k]"
)

CHUNK = Template("""\
        part$i: frag<f32, 64x$d_cols> = frag.columns done, $at
        chunk$i: frag<$out, 64x$d_cols> = frag.cast part$i
        on %warpgroup.warp 0 { elect { bulk.wait 0, read=true } }
        bar.sync store[g]
        $store d_s[g, 0, 0], chunk$i
        fence.proxy.async
        bar.sync store[g]
        on %warpgroup.warp 0 { elect {
          tma.store d[row, col + $at], d_s[g, 0, 0]
          bulk.commit
        } }""")


def matmul_text(
    *,
    groups: int = 2,
    stages: int = 2,
    dtype: str = "bf16",
    out: str = "bf16",
    swizzle: int = 128,
    cols: int = 64,
    store_swizzle: int = 128,
) -> str:
    """D[M, N] = A[M, K] · B[N, K]ᵀ in tiles of ``64 groups x cols x swizzle / 2``.

    One load warp fills ``stages`` stages; ``groups`` warpgroups share a tile, 64 rows each, and
    store it in chunks of as many columns as a box of ``store_swizzle`` has.
    """
    size = 4 if out == "f32" else 2
    d_cols = store_swizzle // size or cols
    b_at = 64 * groups * swizzle * stages
    d_at = b_at + cols * swizzle * stages
    full_at = d_at + groups * 64 * d_cols * size
    values = {
        "threads": 128 * (groups + 1), "warps": 4 * (groups + 1), "groups": groups,
        "stages": stages, "last": stages - 1, "arrivals": 4 * groups, "dtype": dtype, "out": out,
        "rows": 64 * groups, "cols": cols, "k": swizzle // 2, "swizzle": swizzle,
        "steps": swizzle // 32, "bytes": (64 * groups + cols) * swizzle, "d_cols": d_cols,
        "d_swizzle": f" swizzle {store_swizzle}" if store_swizzle else "", "b_at": b_at,
        "d_at": d_at, "full_at": full_at, "empty_at": full_at + 8 * stages,
        "dec": "setmaxnreg dec, 40" if groups == 2 else "",
        "inc": "setmaxnreg inc, 232" if groups == 2 else "",
        "store": "st.shared" if out == "f32" else "stmatrix",
    }  # fmt: skip
    wgmmas = [WGMMA.substitute(i=i, next=i + 1, k=16 * i, cols=cols) for i in range(swizzle // 32)]
    chunks = [CHUNK.substitute(values, i=i, at=i * d_cols) for i in range(cols // d_cols)]
    return MATMUL.substitute(values, wgmmas="\n".join(wgmmas), chunks="\n".join(chunks))


RAW = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}


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


def integers(rng: np.random.Generator, rows: int, cols: int, dtype: str = "bf16") -> np.ndarray:
    """Integers in [-2, 2]: their products sum up exactly, and in every type."""
    return to_dtype(rng.integers(-2, 3, (rows, cols)).astype(np.float32), dtype)


def run_matmul(
    text: str,
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "bf16",
    out: str = "bf16",
    seed: int = 0,
    adversary: str = "random",
    trace: bool = False,
    races: bool = False,
) -> tuple[bool, RunResult]:
    """Run the matmul on two CTAs; whether every element is right, and what happened."""
    rng = np.random.default_rng(seed)
    a, b = integers(rng, m, k, dtype), integers(rng, n, k, dtype)
    d = to_dtype(np.full((m, n), np.nan, np.float32), out)
    result = run_kernel(
        parse_kernel(text),
        {"a": a, "b": b, "d": d},
        {"M": m, "N": n, "K": k},
        2,
        seed=seed,
        adversary=adversary,
        trace=trace,
        races=races,
    )
    want = from_dtype(a, dtype) @ from_dtype(b, dtype).T
    return bool(np.array_equal(from_dtype(d, out), want)), result
