"""One kernel that holds every node kind of the IR, and a well-formed one to break."""

from __future__ import annotations

from lowering.kernel import nodes
from lowering.kernel.nodes import Stmt

ALL_NODES = """\
kernel all threads 384 registers 96 cluster 2 splits 3 share 1 of 40, 32 dependent \
grid min(ceildiv(M, 64) * 2, sms) {
  param M: i32
  param K: i64
  tensormap A: bf16[M, K]
  tensormap D: f32[M, M * 2] box 64x32 swizzle 128
  tensormap R: bf16[M, M] box 64x64 clipped
  tensormap V: f32[M] box 64 early
  tensormap W[3]: bf16[select(entry < 1, M, M * 2), K] box 64x64 swizzle 128
  tensormap E[M] device: f32[M, M] box 8x8
  tensormap Z device: f32[M, M]
  tensormap G ragged: bf16[M + 1, M, K] box 1x8x64 clipped promotion 128
  tensormap X: bf16[3, M, K] box 1x128x64 clipped
  tensormap Y: f32[2, M, 3, M, M * 2] box 1x2x1x4x32 swizzle 128
  global bias: bf16[1, M] align 16
  global scale: f32[M, 1]
  global sums: f32[M, M]
  global stack: f32[3, 2, M, M]
  global list: f32[M]
  global sizes: s32[M]
  global order: s32[M, 1]
  global rows: bf16[M, M] align 16
  shared A_s: bf16[4][128x64]
  shared D_s: f32[2][64x32] swizzle 128 at 65536
  shared Y_s: f32[2][2x4x32] swizzle 128
  shared V_s: f32[1][64]
  shared tile: s32[2][1]
  shared last: s32[1][1] at 81952
  shared R_s: f32[1][8x32]
  tensor cells: f32[2][128x64]
  tensor placed: f32[1][256x32] column 128
  mbarrier full[4] arrivals 1
  mbarrier empty[4] arrivals 8 at 81920
  named_barrier turn[2] id 1 threads 256
  named_barrier later[1] threads 64
  ring ring(A_s) stages 4 teams 2 in_flight 1 prefetch 2
  ring ring2(A_s, D_s) stages 2 dealing 2 shares 2x1 1x2
  ring queue(tile) stages 2 teams 2 remote
  trace spans[8](main_loop, cta)
  counter arrived[M]
  workspace parts: f32[ctas * 2][64x64]
  let n: i64 = ceildiv(K, 64:i64)
  let odd: pred = M % 2 == 1 and (true or false)
  let fill: i32 = min(M, 64) * 128 once
  prefetch.tensormap A
  prefetch.tensormap W[2]
  griddepcontrol.wait
  griddepcontrol.launch_dependents
  fence.mbarrier_init
  cluster.sync
  cta.number 3
  tcgen05.alloc last[0, 0, 0], 256
  tcgen05.relinquish
  tcgen05.base M
  mma.tensor cells[0, 0, 0], A_s[0, 0, 0], A_s[1, 0, 0], 128, 64, 64, 0 < M, trans_b=true
  lanes: frag<f32, 128x64, span 2, below 2> = ld.tensor cells[0, 0, 0]
  elect {
    tcgen05.mma cells[1, 0, 0], A_s[0, 0, 0], A_s[1, 0, 0], 64, accumulate=0 < M, trans_a=true
    tcgen05.mma placed[0, 128, 0], A_s[0, 0, 16], A_s[1, 0, 16], 32
    tcgen05.commit full[0]
  }
  tcgen05.fence after
  flying: frag<f32, 128x32, span 2, below 2, async> = tcgen05.ld cells[1, 0, 32]
  arrived2: frag<f32, 128x32, span 2, below 2> = tcgen05.wait.ld flying
  tcgen05.dealloc 256
  section load groups 1 {
    for m in 0 .. M step 2 {
      produce ring, m
      acquire ring, m
      commit ring, m
      commit queue, m, cta=1
      load.tile A_s[stage(m, 4), 0, 0], A[m * 128, %ctaid.x]
      load.tile A_s[stage(m, 4), 0, 0], X[2, m * 128, %ctaid.x]
    }
    fetch.tiles queue, M
    hand.tile queue, M, M - 1
    hand.tile queue, M, 0, word=1
  }
  section compute groups 2 as g {
    for t in g .. M - -1 event load g * 2 carry (s: i32 = 0 -> s_end, wide: i64 = n -> wide_end) {
      consume ring2, t
      wait_full ring, t
      release ring, t
      entry: i32 = next.tile queue, t * 2 + g, M
      second: i32 = next.tile queue, t * 2 + g, M, word=1
      break M <= entry
      yield s + 1, wide
    }
  }
  roles {
    role compute warps 0 .. 8 as wg {
      setmaxnreg inc, 232
      zero: frag<f32, 64x64> = frag.fill 0.0
      small: frag<f32, 64x64> = frag.fill -1e-05
      huge: frag<f32, 64x64> = frag.fill inf
      sum: frag<f32, 64x64> = mma.tile huge, A_s[0, 0, 0], A_s[1, 64, 0], 64, odd, trans_b=true
      for k in 0 .. 4 carry (acc: frag<f32, 64x64, async> = zero -> last) unroll {
        mbarrier.wait full[k], k // 4 % 2
        mbarrier.wait full[k], 1, order=acquire.cluster
        wgmma.fence
        one: frag<f32, 64x64, async> = wgmma acc, A_s[k, 0, 0], A_s[k, 64, 0], accumulate=0 < k
        two: frag<f32, 64x64, async> = wgmma one, A_s[k, 0, 16], A_s[k, 64, 16], trans_a=true
        few: frag<bf16, 64x16> = frag.fill 0.0
        half: frag<f32, 64x64, async> = wgmma two, A_s[k, 0, 0], A_s[k, 64, 0], col=32, cols=32
        three: frag<f32, 64x64, async> = wgmma half, few, A_s[k, 64, 16], trans_b=true
        wgmma.commit
        next: frag<f32, 64x64, async> = wgmma.wait three, 1
        yield next
      }
      total: frag<f32, 64x64> = wgmma.wait last, 0
      bytes: frag<e4m3, 64x64, span 4> = frag.fill 0.0
      await parts[%ctaid.z], 2
      more: frag<f32, 64x64> = frag.add_partial total, parts[%ctaid.z]
      frag.store_partial parts[1], more
      publish parts[1]
      part: frag<f32, 64x32> = frag.columns more, 32
      upper: frag<f32, 64x64> = frag.rows more, 0
      half: frag<bf16, 64x32> = frag.cast part
      row: frag<bf16, 1x32> = frag.load_global bias[0, 32]
      column: frag<f32, 64x1> = frag.load_global scale[%ctaid.x * 64, 0]
      old: frag<bf16, 64x32> = ldmatrix A_s[1, 0, 32]
      stored: frag<f32, 64x32> = ld.shared D_s[1, 0, 0]
      low: frag<pred, 64x32> = frag.pointwise lt, stored, -inf
      kept: frag<f32, 64x32> = frag.pointwise where, low, 0.30000000000000004, old
      biased: frag<f32, 64x32> = frag.pointwise add, kept, row
      more: frag<f32, 64x32> = frag.update mul, biased, 0.5
      bar.sync turn[wg]
      bar.arrive turn[1 - wg]
      stmatrix A_s[0, 0, 0], half
      stmatrix A_s[0, 0, 0], half, trans=true
      st.shared D_s[0, 0, 0], part
      st.shared D_s[0, 0, 0], part, cta=1 - %cluster.ctarank
      st.async D_s[1, 0, 0], part, full[1], 0
      across: frag<f32, 64x32> = ld.shared D_s[0, 0, 0], cta=1
      fence.proxy.async
      warp.sync
      stamp spans, main_loop, begin, wg * 2
      stamp spans, cta, end, %smid, clock=globaltimer
      print compute, T4, k, wg * 2, when=odd
      frag.print compute, T4, T4_3_5, total, 3, 5
      store.tile D[0, 32], part
      store.tile D[32, 0], part, trans=true
      frag.store_global sums[0, 32], part
      frag.store_global stack[2, %ctaid.x, 0, 32], part
      line: frag<f32, 1x64> = frag.load_global list[64]
      count: i32 = ld.global.scalar sizes[wg], uniform=cta
      seen: i32 = ld.global.scalar sizes[count], order=acquire.gpu
      group.part front: i32, mine: i32 of count + 1
      near: frag<s32, 64x1> = frag.load_global order[0, 0], limit=count
      taken: frag<f32, 64x32> = frag.load_global sums[0, 0], limit=count - seen, index=near
      frag.store_global sums[0, 32], taken, limit=count, index=near
      below: frag<pred, 64x1> = frag.below M - 64
      mask: frag<pred, 64x32> = frag.below 3:i64 - M, down=-2, right=5
      first: frag<f32, 64x1> = frag.fill 0.0
      by_row: frag<f32, 64x1> = frag.reduce max, first, part, below=below
      none: frag<f32, 1x32> = frag.fill 0.0
      all_rows: frag<f32, 1x32> = frag.reduce_rows sum, none, part, below=below
      frag.reduce_to_shared sum, R_s[0, wg * 4, 0], part
      start: frag<f32, 1x32> = frag.fill 0.0
      by_column: frag<f32, 1x32> = frag.reduce_from_shared sum, start, R_s[0, 0, 0], 8
      frag.store_reduced max, sums[wg, 32], R_s[0, 4, 0], 4, 32
      frag.red_global add, sums[0, 32], by_column, any_order=true
      noise: frag<f32, 64x32> = frag.random K, n, M * 4, K
      wider: frag<f32, 64x32, span 4> = frag.shuffle noise
      frag.red_global max, sums[0, 32], by_row, limit=M, index=near
      elect {
        st.global.scalar sizes[0], count + 1
        tma.store D[0, 32], D_s[0, 0, 0]
        tma.store D[0, 32], D_s[0, 0, 0], cache=evict_first
        tma.store Y[1, 0, 2, M - 4, 32], Y_s[1, 0, 0, 0]
        bulk.commit
        bulk.wait 1, read=true
        bulk.wait 0
      }
    }
    role load warps 8 .. 12 {
      on %warpgroup.warp 0 {
        elect {
          mbarrier.init full[0], 1
          mbarrier.expect_tx full[0]
          mbarrier.expect_tx full[0], bytes=16384
          mbarrier.expect_tx full[0], bytes=fill + 64
          tma.load A_s[0, 0, 0], A[0, 0]
          tma.load V_s[0, 0], V[M - 64]
          tma.prefetch A[M, 64]
          tma.load A_s[0, 0, 0], A[0, 0], bar=full[0], multicast=3 << %cluster.ctarank, ctas=2
          tma.load A_s[0, 0, 0], A[0, 0], cache=evict_last
          mbarrier.arrive empty[0]
          mbarrier.arrive empty[0], cta=1, order=release.cluster
          mbarrier.inval full[0]
          ticket: i32 = atom inc, arrived[0], M - 1
          before: i32 = atom add, arrived[ticket], 1, order=release.gpu
          counter.wait arrived[before], 2
          tma.load A_s[0, 0, 0], W[M % 3][0, 64]
          tensormap.replace.global_address E[before], sums[0, ticket]
          tensormap.replace.global_dim E[before], 1, M - ticket
          fence.proxy.tensormap.release
          fence.proxy.tensormap.acquire E[before + 1]
          fence.proxy.tensormap.acquire Z
          bulk.copy D_s[0, 0, 0], D_s[1, 0, 0], full[0], 1 - %cluster.ctarank
          st.word tile[0, 0], ticket
          st.word tile[1, 0], ticket + 1, cta=1
        }
      }
      on %warp 9 {
        warp.sync
      }
      if %ctaid.x == 0 {
        warp.sync
      } else {
        copy.tile A_s[1, 0, 0], rows[0, 8], 64, 64
        cp.async A_s[1, 0, 0], rows[0, 8], 64, 64, limit=M - 1
        cp.async.mbarrier.arrive.noinc full[1]
        cta.sync
        found: i32 = ld.word tile[0, 0]
      }
    }
  }
}
"""

NODE_KINDS: tuple[type[Stmt], ...] = tuple(
    kind
    for kind in vars(nodes).values()
    if isinstance(kind, type) and issubclass(kind, Stmt) and kind is not Stmt
)

WELL_FORMED = """\
kernel good threads 384 cluster 1 grid 1 {
  param M: i32
  tensormap A: bf16[M, M] box 64x64 swizzle 128
  shared A_s: bf16[2][64x64] swizzle 128
  mbarrier full[2] arrivals 1
  named_barrier turn[1] id 1 threads 128
  roles {
    role compute warps 0 .. 8 as wg {
      for t in 0 .. M {
        zero: frag<f32, 64x64> = frag.fill 0.0
        for k in 0 .. 2 carry (acc: frag<f32, 64x64, async> = zero -> sum) {
          if 0 < k {
            mbarrier.wait full[k], 0
          }
          one: frag<f32, 64x64, async> = wgmma acc, A_s[k, 0, 0], A_s[k, 0, 0]
          wgmma.commit
          yield one
        }
        total: frag<f32, 64x64> = wgmma.wait sum, 0
        half: frag<bf16, 64x64> = frag.cast total
        if wg == 0 {
          for c in 0 .. 2 {
            stmatrix A_s[c, 0, 0], half
            bar.sync turn[0]
            elect {
              tma.store A[t, 0], A_s[c, 0, 0]
            }
          }
        }
      }
    }
    role load warps 8 .. 12 {
      elect {
        for m in 0 .. M {
          tma.load A_s[m % 2, 0, 0], A[m, 0], bar=full[m % 2]
        }
      }
    }
  }
}
"""
