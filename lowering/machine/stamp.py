"""Stamps on the machine: steps of all warps of a cluster so far, or cycles by a clock."""

from __future__ import annotations

import numpy as np

from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel, TraceBuffer
from lowering.kernel.nodes import Stamp
from lowering.machine.fragment import Array
from lowering.machine.program import Program, Run
from lowering.machine.state import Warp

__all__ = ["stamp", "trace_array"]


def trace_array(kernel: Kernel, trace: TraceBuffer, array: Array, grid: int) -> Array:
    """The array behind a trace buffer, once its shape and type are known to be right.

    Raises:
        InternalError: they are not.
    """
    wanted = (grid, kernel.threads // 32, 1 + trace.slots, 2)
    if array.shape != wanted or array.dtype != np.int64:
        found = f"{array.dtype.name} {list(array.shape)}"
        raise InternalError("machine", f"{trace.name} is {found}, not int64 {list(wanted)}")
    return array


def stamp(stmt: Stamp, program: Program) -> Run:
    """``stamp``; both clocks are the scheduler's time, which begins anew with each cluster."""
    trace = program.kernel.trace(stmt.buffer)
    code, value = trace.code(stmt.event, stmt.phase, stmt.clock), program.scalar(stmt.value)

    def run(warp: Warp) -> None:
        records = warp.cta.cluster.globals[trace.name][warp.cta.ctaid, warp.index]
        made = warp.stamps[trace.name]
        if made < trace.slots:
            records[1 + made] = int(warp.scheduler.time), code + (value(warp.env) << 32)
        warp.stamps[trace.name] = records[0, 0] = made + 1

    return run
