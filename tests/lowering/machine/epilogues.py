"""One warpgroup that loads, computes and stores a matrix: the epilogue without the matmul."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lowering.kernel.kernel import Kernel
from lowering.kernel.pointwise import OPS
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import run_kernel

TEXT = """
kernel epilogue threads 128 cluster 1 grid ceildiv(M, 64) * ceildiv(N, 64) {{
  param M: i32
  param N: i32
  tensormap d: f32[M, N] box 64x32 swizzle 128
  tensormap old: bf16[M, N] box 64x64 swizzle 128
  tensormap old32: f32[M, N] box 64x32 swizzle 128
  global x: f32[M, N]
  global y: bf16[M, N]
  global row: bf16[1, N]
  global pairs: bf16[1, N] align 4
  global column: f32[M, 1]
  global minus: f32[M, N] align 8
  global half: f16[M, 1]
  global one: f32[1, 1]
  shared old_s: bf16[1][64x64] swizzle 128 at 0
  shared d_s: f32[1][64x32] swizzle 128 at 8192
  mbarrier full[1] arrivals 1 at 16384
  on %warp 0 {{ elect {{
    mbarrier.init full[0], 1
    fence.mbarrier_init
  }} }}
  cta.sync
  let tiles: i32 = ceildiv(N, 64)
  let r: i32 = %ctaid.x // tiles * 64
  let c: i32 = %ctaid.x % tiles * 64
  acc: frag<f32, 64x64> = frag.load_global x[r, c]
  {body}
  {store}
  cta.sync
  on %warp 0 {{ elect {{ mbarrier.inval full[0] }} }}
}}
"""
STORE = """
  part{i}: frag<f32, 64x32> = frag.columns out, {at}
  st.shared d_s[0, 0, 0], {value}
  fence.proxy.async
  cta.sync
  on %warp 0 {{ elect {{
    tma.store d[r, c + {at}], d_s[0, 0, 0]
    bulk.commit
    bulk.wait 0
  }} }}
  cta.sync
"""
LOAD = """
  on %warp 0 { elect {
    mbarrier.expect_tx full[0], bytes=8192
    tma.load old_s[0, 0, 0], old[r, c], bar=full[0]
  } }
  mbarrier.wait full[0], 0
  before: frag<bf16, 64x64> = ldmatrix old_s[0, 0, 0]
"""
LOAD32 = """
  on %warp 0 { elect {
    mbarrier.expect_tx full[0], bytes=8192
    tma.load d_s[0, 0, 0], old32[r, c], bar=full[0]
  } }
  mbarrier.wait full[0], 0
  before: frag<f32, 64x32> = ld.shared d_s[0, 0, 0]
  cta.sync
"""


def epilogue(body: str, left: str = "part0") -> Kernel:
    """A kernel that computes the fragment ``out`` from ``acc`` (x's tile) by ``body``.

    ``left`` names what is stored to the left 32 columns, those of ``out`` unless told.
    """
    store = "".join(
        STORE.format(i=i, at=32 * i, value=value) for i, value in enumerate((left, "part1"))
    )
    kernel = parse_kernel(TEXT.format(body=body, store=store))
    assert verify(kernel) == []
    return kernel


def chain(*steps: str) -> str:
    """Statements from ``name = op args``, each a 64x64 fragment; comparisons give predicates."""
    lines = []
    for step in steps:
        name, op, *args = step.replace("=", " ").replace(",", " ").split()
        kind = "pred" if OPS[op].predicate else "f32"
        lines.append(f"{name}: frag<{kind}, 64x64> = frag.pointwise {op}, {', '.join(args)}")
    return "\n  ".join(lines)


def bf16(values: np.ndarray) -> np.ndarray:
    """The raw bits of values, rounded towards zero."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def floats(bits: np.ndarray) -> np.ndarray:
    """bf16 bits as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def inputs(m: int, n: int, seed: int = 0) -> dict[str, np.ndarray]:
    """An array for each tensor; ``d`` and ``minus`` are NaN. ``n`` is a multiple of 8."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "d": np.full((m, n), np.nan, np.float32),
        "old": bf16(normal(m, n)),
        "old32": normal(m, n),
        "x": normal(m, n) * 3,
        "y": bf16(normal(m, n)),
        "row": bf16(normal(1, n)),
        "pairs": bf16(normal(1, n)),
        "column": normal(m, 1),
        "half": normal(m, 1).astype(np.float16),
        "one": normal(1, 1),
        "minus": np.full((m, n), np.nan, np.float32),
    }


def run_epilogue(
    kernel: Kernel, tensors: Mapping[str, np.ndarray], *, seed: int = 0, adversary: str = "random"
) -> np.ndarray:
    """The result for one 64x64 tile a CTA."""
    m, n = tensors["x"].shape
    grid = -(-m // 64) * -(-n // 64)
    params = {"M": m, "N": n}
    how: Any = {"seed": seed, "adversary": adversary}
    run_kernel(kernel, tensors, params, grid, **how)
    return tensors["d"]
