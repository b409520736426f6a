"""Kernels in IR text that the tests of the CUDA back end compile and run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from string import Template

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel


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
          on %warp 0 {
            elect {
              mbarrier.init full[0], 1
              fence.mbarrier_init
            }
          }
          cta.sync
          on %warp 0 {
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


def cooperative_kernel(
    dtype: str = "bf16",
    out: str = "bf16",
    stages: int = 4,
    tensors: str = "",
    init: str = "",
    compute: Callable[[int, int], str] | None = None,
) -> Kernel:
    """Persistent, warp-specialized, 128x256x64, two compute warpgroups, one wgmma group in flight.

    ``out`` is ``dtype`` (stmatrix) or ``f32`` (vector stores); the epilogue goes in chunks of 128
    bytes through two buffers for each warpgroup. One lane of each compute warp gives a stage back,
    because wgmma.wait speaks for the executing warp only.

    ``compute(i, at)`` gives statements that make ``e<i>`` from the chunk ``c<i>``, whose first
    column is ``at``; ``tensors`` are the declarations that they need, ``init`` sets up mbarriers.
    """
    wide = out == "f32"
    chunk = 32 if wide else 64
    epilogue = "".join(_chunk(i, chunk, out, compute) for i in range(256 // chunk))
    ring, done = stages * 49152, stages * 49152 + 4 * 8192
    text = Path(__file__).with_name("cooperative.ir").read_text(encoding="utf-8")
    return parse_kernel(
        Template(text).substitute(
            dtype=dtype,
            out=out,
            chunk=chunk,
            stages=stages,
            last=stages - 1,
            b_offset=stages * 16384,
            d_offset=ring,
            full_offset=done,
            empty_offset=done + 8 * stages,
            epilogue=epilogue,
            tensors=tensors,
            init=init,
        )
    )


def _chunk(i: int, cols: int, out: str, compute: Callable[[int, int], str] | None) -> str:
    """One chunk of the epilogue: wait for the buffer, write it, store it."""
    columns = f"c{i}: frag<f32, 64x{cols}> = frag.columns sum, {i * cols}"
    buffer = f"D_smem[group * 2 + {i % 2}, 0, 0]"
    value = f"e{i}" if compute else f"c{i}"
    if out == "f32":
        write = f"st.shared {buffer}, {value}"
    else:
        write = f"d{i}: frag<{out}, 64x{cols}> = frag.cast {value}\n stmatrix {buffer}, d{i}"
    return f"""
        {columns}
        on %warpgroup.warp 0 {{
          elect {{
            bulk.wait 1, read=true
          }}
        }}
        bar.sync store[group]
        {compute(i, i * cols) if compute else ""}
        {write}
        fence.proxy.async
        bar.sync store[group]
        on %warpgroup.warp 0 {{
          elect {{
            tma.store D[drow, dcol + {i * cols}], {buffer}
            bulk.commit
          }}
        }}
    """


def batched_kernel() -> Kernel:
    """Matrices of a batch through 3-D tensor maps, rows added that threads read themselves."""
    text = Path(__file__).with_name("batched.ir").read_text(encoding="utf-8")
    return parse_kernel(text)
