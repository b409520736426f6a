"""Kernels in IR text that the tests of the CUDA back end compile and run."""

from __future__ import annotations

from lowering.ir.kernel import Kernel
from lowering.ir.text import parse_kernel


def copy_kernel() -> Kernel:
    """The smallest whole kernel: one 64x64 tile of A through shared memory to D."""
    return parse_kernel(
        """
        kernel copy threads 128 cluster 1 grid ceildiv(M, 64) {
          param M: i32
          param N: i32
          tensormap A: bf16[M, N] box 64x64 swizzle 128
          tensormap D: bf16[M, N] box 64x64 swizzle 128
          shared tile: bf16[1][64x64] swizzle 128 at 0
          mbarrier full[1] arrivals 1 at 8192
          if %warp == 0 {
            elect {
              mbarrier.init full[0], 1
              fence.mbarrier_init
            }
          }
          cta.sync
          if %warp == 0 {
            for j in 0 .. ceildiv(N, 64) carry (parity: i32 = 0 -> last) {
              elect {
                mbarrier.expect_tx full[0], bytes=8192
                tma.load tile[0, 0, 0], A[%ctaid.x * 64, j * 64], bar=full[0]
              }
              mbarrier.wait full[0], parity
              elect {
                tma.store D[%ctaid.x * 64, j * 64], tile[0, 0, 0]
                bulk.commit
                bulk.wait 0
              }
              yield parity ^ 1
            }
          }
          cta.sync
        }
        """
    )


def cooperative_kernel(dtype: str = "bf16", out: str = "bf16", stages: int = 4) -> Kernel:
    """Persistent, warp-specialized, 128x256x64, two compute warpgroups, one wgmma group in flight.

    ``out`` is ``dtype`` (stmatrix) or ``f32`` (vector stores); the epilogue goes in chunks of 128
    bytes through two buffers for each warpgroup.
    """
    wide = out == "f32"
    chunk = 32 if wide else 64
    epilogue = "".join(_chunk(i, chunk, out) for i in range(256 // chunk))
    ring, done = stages * 49152, stages * 49152 + 4 * 8192
    return parse_kernel(
        f"""
        kernel cooperative threads 384 cluster 1 grid sms {{
          param M: i32
          param N: i32
          param K: i32
          tensormap A: {dtype}[M, K] box 128x64 swizzle 128
          tensormap B: {dtype}[N, K] box 256x64 swizzle 128
          tensormap D: {out}[M, N] box 64x{chunk} swizzle 128
          shared A_smem: {dtype}[{stages}][128x64] swizzle 128 at 0
          shared B_smem: {dtype}[{stages}][256x64] swizzle 128 at {stages * 16384}
          shared D_smem: {out}[4][64x{chunk}] swizzle 128 at {ring}
          mbarrier full[{stages}] arrivals 1 at {done}
          mbarrier empty[{stages}] arrivals 2 at {done + 8 * stages}
          named_barrier store[2] id 1 threads 128
          if %warp == 0 {{
            elect {{
              prefetch.tensormap A
              prefetch.tensormap B
              prefetch.tensormap D
              for i in 0 .. {stages} unroll {{
                mbarrier.init full[i], 1
                mbarrier.init empty[i], 2
              }}
              fence.mbarrier_init
            }}
          }}
          cta.sync
          let tiles_n: i32 = ceildiv(N, 256)
          let tiles: i32 = ceildiv(M, 128) * tiles_n
          let steps: i32 = ceildiv(K, 64)
          roles {{
            role load warps 0 .. 4 {{
              setmaxnreg dec, 40
              if %warpgroup.warp == 0 {{
                for tile in %ctaid.x .. tiles step %nctaid.x carry (s0: i32 = 0 -> s9, p0: i32 = 0 -> p9) {{
                  let row: i32 = tile // tiles_n * 128
                  let col: i32 = tile % tiles_n * 256
                  for k in 0 .. steps carry (s1: i32 = s0 -> s2, p1: i32 = p0 -> p2) {{
                    mbarrier.wait empty[s1], p1 ^ 1
                    elect {{
                      mbarrier.expect_tx full[s1], bytes=49152
                      tma.load A_smem[s1, 0, 0], A[row, k * 64], bar=full[s1]
                      tma.load B_smem[s1, 0, 0], B[col, k * 64], bar=full[s1]
                    }}
                    let wrap: i32 = select(s1 == {stages - 1}, 1, 0)
                    yield select(wrap == 1, 0, s1 + 1), p1 ^ wrap
                  }}
                  yield s2, p2
                }}
              }}
            }}
            role compute warps 4 .. 12 as group {{
              setmaxnreg inc, 232
              for ctile in %ctaid.x .. tiles step %nctaid.x carry (s3: i32 = 0 -> s8, p3: i32 = 0 -> p8) {{
                zero: frag<f32, 64x256> = frag.fill 0.0
                for kk in 0 .. steps carry (acc: frag<f32, 64x256, async> = zero -> acc9, s4: i32 = s3 -> s5, p4: i32 = p3 -> p5, back: i32 = 0 -> back9) {{
                  mbarrier.wait full[s4], p4
                  wgmma.fence
                  acc1: frag<f32, 64x256, async> = wgmma acc, A_smem[s4, group * 64, 0], B_smem[s4, 0, 0]
                  acc2: frag<f32, 64x256, async> = wgmma acc1, A_smem[s4, group * 64, 16], B_smem[s4, 0, 16]
                  acc3: frag<f32, 64x256, async> = wgmma acc2, A_smem[s4, group * 64, 32], B_smem[s4, 0, 32]
                  acc4: frag<f32, 64x256, async> = wgmma acc3, A_smem[s4, group * 64, 48], B_smem[s4, 0, 48]
                  wgmma.commit
                  acc5: frag<f32, 64x256, async> = wgmma.wait acc4, 1
                  if 0 < kk {{
                    if %warpgroup.warp == 0 {{
                      elect {{
                        mbarrier.arrive empty[back]
                      }}
                    }}
                  }}
                  let cwrap: i32 = select(s4 == {stages - 1}, 1, 0)
                  yield acc5, select(cwrap == 1, 0, s4 + 1), p4 ^ cwrap, s4
                }}
                sum: frag<f32, 64x256> = wgmma.wait acc9, 0
                if 0 < steps {{
                  if %warpgroup.warp == 0 {{
                    elect {{
                      mbarrier.arrive empty[back9]
                    }}
                  }}
                }}
                let drow: i32 = ctile // tiles_n * 128 + group * 64
                let dcol: i32 = ctile % tiles_n * 256
                {epilogue}
                yield s5, p5
              }}
              if %warpgroup.warp == 0 {{
                elect {{
                  bulk.wait 0
                }}
              }}
            }}
          }}
          cta.sync
          if %warp == 0 {{
            elect {{
              for z in 0 .. {stages} unroll {{
                mbarrier.inval full[z]
                mbarrier.inval empty[z]
              }}
            }}
          }}
        }}
        """
    )


def _chunk(i: int, cols: int, out: str) -> str:
    """One chunk of the epilogue: wait for the buffer, write it, store it."""
    columns = f"c{i}: frag<f32, 64x{cols}> = frag.columns sum, {i * cols}"
    buffer = f"D_smem[group * 2 + {i % 2}, 0, 0]"
    if out == "f32":
        write = f"st.shared {buffer}, c{i}"
    else:
        write = f"d{i}: frag<{out}, 64x{cols}> = frag.cast c{i}\n stmatrix {buffer}, d{i}"
    return f"""
        {columns}
        if %warpgroup.warp == 0 {{
          elect {{
            bulk.wait 1, read=true
          }}
        }}
        bar.sync store[group]
        {write}
        fence.proxy.async
        bar.sync store[group]
        if %warpgroup.warp == 0 {{
          elect {{
            tma.store D[drow, dcol + {i * cols}], {buffer}
            bulk.commit
          }}
        }}
    """
