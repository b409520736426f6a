"""A matmul whose ring is filled in other ways than by TMA, and copies by ``cp.async``: IR text."""

from __future__ import annotations

from string import Template

__all__ = ["FILLS", "copy_text", "ring_text"]

_RING = Template("""
kernel ring threads 256 cluster 1 grid ceildiv(M, 64) {
  param M: i32
  param N: i32
  param K: i32
  param R: i32
  tensormap b: bf16[N, K] box 64x64 swizzle 128
  global x: bf16[R, K] align 16
  global order: s32[M, 1]
  global d: f32[M, N]
  shared a_s: bf16[2][64x64] swizzle 128 at 0
  shared b_s: bf16[2][64x64] swizzle 128 at 16384
  mbarrier full[2] arrivals 129 at 32768
  mbarrier empty[2] arrivals 4 at 32784
  on %warp 0 { elect {
    for s in 0 .. 2 {
      mbarrier.init full[s], 129
      mbarrier.init empty[s], 4
    }
    fence.mbarrier_init
  } }
  cta.sync
  let row: i32 = %ctaid.x * 64
  roles {
    role load warps 0 .. 4 {
      near: frag<s32, 64x1> = frag.load_global order[row, 0], limit=M - row
      for k in 0 .. ceildiv(K, 64) carry (stage: i32 = 0 -> stage_, parity: i32 = 0 -> parity_) {
        mbarrier.wait empty[stage], parity ^ 1
        on %warpgroup.warp 0 { elect {
          mbarrier.expect_tx full[stage], bytes=8192
          tma.load b_s[stage, 0, 0], b[0, k * 64], bar=full[stage]
        } }
$fill
        yield stage ^ 1, parity ^ select(stage == 1, 1, 0)
      }
    }
    role compute warps 4 .. 8 {
      zero: frag<f32, 64x64> = frag.fill 0.0
      for k2 in 0 .. ceildiv(K, 64) carry (s2: i32 = 0 -> s2_, p2: i32 = 0 -> p2_,
          acc0: frag<f32, 64x64> = zero -> total) {
        mbarrier.wait full[s2], p2
$fence
        wgmma.fence
        acc1: frag<f32, 64x64, async> = wgmma acc0, a_s[s2, 0, 0], b_s[s2, 0, 0]
        acc2: frag<f32, 64x64, async> = wgmma acc1, a_s[s2, 0, 16], b_s[s2, 0, 16]
        acc3: frag<f32, 64x64, async> = wgmma acc2, a_s[s2, 0, 32], b_s[s2, 0, 32]
        acc4: frag<f32, 64x64, async> = wgmma acc3, a_s[s2, 0, 48], b_s[s2, 0, 48]
        wgmma.commit
        sum: frag<f32, 64x64> = wgmma.wait acc4, 0
        elect { mbarrier.arrive empty[s2] }
        yield s2 ^ 1, p2 ^ select(s2 == 1, 1, 0), sum
      }
      frag.store_global d[row, 0], total, limit=M - row
    }
  }
  cta.sync
  on %warp 0 { elect {
    for i in 0 .. 2 {
      mbarrier.inval full[i]
      mbarrier.inval empty[i]
    }
  } }
}
""")

FILLS = {
    "rows": (
        """\
        cp.async a_s[stage, 0, 0], x[row, k * 64], 64, 64, limit=M - row
        cp.async.mbarrier.arrive.noinc full[stage]""",
        "        fence.proxy.async",
    ),
    "gather": (
        """\
        cp.async a_s[stage, 0, 0], x[0, k * 64], 64, 64, limit=M - row, index=near
        cp.async.mbarrier.arrive.noinc full[stage]""",
        "        fence.proxy.async",
    ),
    "registers": (
        """\
        t: frag<bf16, 64x64> = frag.load_global x[0, k * 64], limit=M - row, index=near
        stmatrix a_s[stage, 0, 0], t
        fence.proxy.async
        mbarrier.arrive full[stage]""",
        "",
    ),
}
"""How threads fill a stage, and the fence of those who read it. Rows in turn, or by index; through
registers, the producers themselves execute the fence.
"""


def ring_text(fill: str) -> str:
    """D[M, N <= 64] = X[order] · B[N, K]ᵀ; of ``rows`` without ``order``.

    A is filled by the 128 threads of the load role, B by TMA, both into one ring.
    """
    filled, fence = FILLS[fill]
    return _RING.substitute(fill=filled, fence=fence)


_COPY = Template("""
kernel copies threads 128 cluster 1 grid 1 {
  param M: i32
  param N: i32
  tensormap D: $dtype[256, 512] box 128x$box$swizzle
  global X: $dtype[2, M, N] align 16
  shared S: $dtype[2][128x$cols]$swizzle at 0
  mbarrier full[1] arrivals 128 at $end
  on %warp 0 { elect {
    mbarrier.init full[0], 128
    fence.mbarrier_init
  } }
  cta.sync
  cp.async S[1, 0, 0], X[1, 64, $at], 128, $cols
  cp.async.mbarrier.arrive.noinc full[0]
  mbarrier.wait full[0], 0
  fence.proxy.async
  cta.sync
  on %warp 0 { elect {
    for b in 0 .. $boxes {
      tma.store D[128, b * $box], S[1, 0, b * $box]
    }
    bulk.commit
    bulk.wait 0
  } }
}
""")


def copy_text(dtype: str, size: int, cols: int, span: int, at: int) -> str:
    """D[128:, :cols] = X[1, 64:192, at:], zero where X ends; ``span`` bytes of swizzle."""
    box = span // size or cols
    values = {
        "dtype": dtype, "cols": cols, "box": box, "boxes": cols // box, "at": at,
        "swizzle": f" swizzle {span}" if span else "", "end": 2 * 128 * cols * size,
    }  # fmt: skip
    return _COPY.substitute(values)
