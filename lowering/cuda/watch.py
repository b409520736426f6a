"""Waits of a watched kernel: a bound on each, and what a warp writes down when it is over.

Whatever is emitted is inlined, because a call would make ptxas put wgmmas one behind the other. The
way of a wait that passes at once is the same as ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.cuda.emitter import Emitter
from lowering.cuda.parameters import Parameter
from lowering.kernel.kernel import Watch
from lowering.kernel.nodes import CounterWait, MBarrierWait
from lowering.kernel.waits import WORDS

__all__ = ["counter_wait", "mbarrier_wait", "parameters"]

_GRACE = 4
"""The part of the bound for which a warp whose wait has failed waits for the others' rows."""

_FUNCTION = "watch"

_TEXT = """\
// The first wait that failed in the grid.
__device__ int watch_first;

__device__ __forceinline__ u64 watch_time() {{
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}}

// Writes the warp's row and ends the kernel. An arrival tells how many others a barrier lacks, so
// it comes when all who wait have written theirs.
__device__ __forceinline__ void watch_end(
    volatile u64* rows, int site, int index, int wanted, unsigned bar, int found) {{
  const u64 begin = watch_time();
  const unsigned cta = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  volatile u64* row = rows + (u64(cta) * (blockDim.x / 32) + threadIdx.x / 32) * {words};
  const bool one = (threadIdx.x & 31) == __ffs(__activemask()) - 1;
  const bool first = one && atomicExch(&watch_first, 1) == 0;
  if (one) {{
    row[1] = begin;
    row[2] = u64(unsigned(index)) + (u64(unsigned(wanted)) << 32);
    row[3] = 1 + found;
    __threadfence_system();
    row[0] = 1 + site;
    __threadfence_system();
  }}
  while (watch_time() - begin < {grace}ull) {{
  }}
  if (first && found < 0) {{
    u64 state;
    int lacking;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(lacking) : "l"(state));
    row[3] = 1 + lacking;
    __threadfence_system();
  }}
  while (watch_time() - begin < 2 * {grace}ull) {{
  }}
  __trap();
}}
"""

_WAIT = """
__device__ __forceinline__ void watched_mbarrier_wait{order}(
    unsigned bar, int parity, u64* rows, int site, int index) {{
  if (ptx::mbarrier_try_wait_parity{order}(bar, parity)) return;
  const u64 begin = watch_time();
  while (!ptx::mbarrier_try_wait_parity{order}(bar, parity)) {{
    if (watch_time() - begin > {bound}ull) watch_end(rows, site, index, parity, bar, -1);
  }}
}}
"""

_COUNTER = """
__device__ __forceinline__ void watched_counter_wait(
    const int* at, int least, u64* rows, int site, int index) {{
  const u64 begin = watch_time();
  int found;
  while ((found = ptx::ld_acquire_gpu(at)) < least) {{
    if (watch_time() - begin > {bound}ull) watch_end(rows, site, index, least, 0, found);
  }}
}}"""


def parameters(e: Emitter) -> Iterator[Parameter]:
    """The kernel's parameter for its watch: the address of the rows."""
    if e.kernel.watch is not None:
        yield Parameter("u64*", e.names.of("watch", e.kernel.watch.name))


def mbarrier_wait(e: Emitter, s: MBarrierWait, order: str, watch: Watch) -> None:
    """A wait for an mbarrier; ``order`` ends the names of the functions that wait so."""
    where = f"{e.mbarrier(s.bar)}, {e.arg(s.parity)}"
    _call(e, watch, f"watched_mbarrier_wait{order}({where}", e.arg(s.bar.index))


def counter_wait(e: Emitter, s: CounterWait, address: str, watch: Watch) -> None:
    """A wait for a counter."""
    where = f"{address}, {e.arg(s.value)}"
    _call(e, watch, f"watched_counter_wait({where}", e.arg(s.counter.index))


def _call(e: Emitter, watch: Watch, call: str, index: str) -> None:
    bound = watch.nanoseconds
    text = _TEXT.format(words=WORDS, grace=bound // _GRACE)
    orders = ("", "_cluster", "_relaxed")
    text += "".join(_WAIT.format(order=order, bound=bound) for order in orders)
    e.functions[_FUNCTION] = text + _COUNTER.format(bound=bound)
    e.out.line(f"{call}, {e.names.of('watch', watch.name)}, {e.waits}, {index});")
    e.waits += 1
