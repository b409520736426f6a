"""What warps of a watched kernel write down when they wait for ever.

The machine needs no bound: it knows when nothing can wake anybody. Rows are those that a GPU writes
(:mod:`lowering.kernel.waits`); the warps' numbers stand for the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel, Watch
from lowering.kernel.nodes import CounterWait, MBarrierWait
from lowering.kernel.waits import WORDS, row_of, sites
from lowering.machine.fragment import Array
from lowering.machine.scalars import compile_scalar
from lowering.machine.state import Cluster, Warp

__all__ = ["watch_array", "write_waits"]


def watch_array(kernel: Kernel, watch: Watch, array: Array, ctas: int) -> Array:
    """The array behind a watch, once its shape and type are known to be right.

    Raises:
        InternalError: they are not.
    """
    wanted = (ctas, kernel.threads // 32, WORDS)
    if array.shape != wanted or array.dtype != np.int64:
        found = f"{array.dtype.name} {list(array.shape)}"
        raise InternalError("machine", f"{watch.name} is {found}, not int64 {list(wanted)}")
    return array


def write_waits(kernel: Kernel, clusters: Sequence[Cluster]) -> None:
    """The rows of all warps of these clusters that wait with a bound; none without a watch."""
    if kernel.watch is None:
        return
    rows = clusters[0].globals[kernel.watch.name]
    numbers = {id(site.stmt): number for number, site in enumerate(sites(kernel))}
    first = True
    for warp in (w for c in clusters for w in c.warps if w.blocked):
        stmt = warp.stmt
        if isinstance(stmt, MBarrierWait | CounterWait):
            time = warp.cta.ctaid * (kernel.threads // 32) + warp.index
            row = row_of(numbers[id(stmt)], time, *_waited(warp, stmt, first))
            rows[warp.cta.ctaid, warp.index] = row
            first = False


def _waited(
    warp: Warp, stmt: MBarrierWait | CounterWait, first: bool
) -> tuple[int, int, int | None]:
    """Index, what is waited for, and what is there."""
    if isinstance(stmt, CounterWait):
        at, wanted = (compile_scalar(e)(warp.env) for e in (stmt.counter.index, stmt.value))
        value = int(warp.cta.cluster.counters[stmt.counter.array].words[at])
        return at, wanted, value
    at, wanted = (compile_scalar(e)(warp.env) for e in (stmt.bar.index, stmt.parity))
    lacking = warp.cta.mbarriers[stmt.bar.array][at].pending
    return at, wanted, lacking if first else None
