"""Kernels with arrays of tensor maps and with tensor maps in device memory, as IR text."""

from __future__ import annotations

LISTS = """
kernel lists threads 32 cluster 1 grid ceildiv(M, 64) {
  param M: i32
  param N0: i32
  param N1: i32
  param N2: i32
  tensormap X[3]: f32[M, select(entry == 0, N0, select(entry == 1, N1, N2))] box 64x32 swizzle 128
  tensormap D[3]: f32[M, select(entry == 0, N0, select(entry == 1, N1, N2))] box 64x32 swizzle 128
  shared tile: f32[1][64x32] swizzle 128 at 0
  mbarrier full[1] arrivals 1 at 8192
  elect {
    prefetch.tensormap X[2]
    mbarrier.init full[0], 1
    fence.mbarrier_init
  }
  cta.sync
  let boxes0: i32 = ceildiv(N0, 32)
  let boxes1: i32 = boxes0 + ceildiv(N1, 32)
  for j in 0 .. boxes1 + ceildiv(N2, 32) carry (parity: i32 = 0 -> last) {
    let entry: i32 = select(j < boxes0, 0, select(j < boxes1, 1, 2))
    let col: i32 = (j - select(j < boxes0, 0, select(j < boxes1, boxes0, boxes1))) * 32
    elect {
      mbarrier.expect_tx full[0], bytes=8192
      tma.load tile[0, 0, 0], X[entry][%ctaid.x * 64, col], bar=full[0]
      mbarrier.wait full[0], parity
      tma.store D[entry][%ctaid.x * 64, col], tile[0, 0, 0]
      bulk.commit
      bulk.wait 0
    }
    yield parity ^ 1
  }
}
"""
"""Copies three tensors of different widths; a tile of columns after the other, over the list."""

GROUPS = """
kernel groups threads 32 cluster 1 grid 2 {
  param M: i32
  param G: i32
  tensormap X: f32[M, 32] box 64x32 swizzle 128
  tensormap D[2] device: f32[M, 32] box 64x32 swizzle 128
  global d: f32[M, 32]
  global x: f32[M, 32]
  global start: s32[G + 1]
  shared tile: f32[1][64x32] swizzle 128 at 0
  mbarrier full[1] arrivals 1 at 8192
  elect {
    mbarrier.init full[0], 1
    fence.mbarrier_init
  }
  cta.sync
  for g in %ctaid.x .. G step 2 carry (p0: i32 = 0 -> p1) {
    first: i32 = ld.global.scalar start[g]
    end: i32 = ld.global.scalar start[g + 1]
    if first < end {
      elect {
        tensormap.replace.global_address D[%ctaid.x], d[first, 0]
        tensormap.replace.global_dim D[%ctaid.x], 0, end - first
        fence.proxy.tensormap.release
        fence.proxy.tensormap.acquire D[%ctaid.x]
      }
    }
    for row in 0 .. end - first step 64 carry (parity: i32 = p0 -> last) {
      elect {
        mbarrier.expect_tx full[0], bytes=8192
        tma.load tile[0, 0, 0], X[first + row, 0], bar=full[0]
        mbarrier.wait full[0], parity
        tma.store D[%ctaid.x][row, 0], tile[0, 0, 0]
        bulk.commit
        bulk.wait 0
      }
      yield parity ^ 1
    }
    yield last
  }
}
"""
"""Copies groups of rows by TMA: the descriptor of the stores changes, and ends with the group."""
