"""The machine: the final kernel executed on the CPU with NumPy, byte for byte, without a GPU."""

from __future__ import annotations

from lowering.machine.errors import DeadlockError, MachineError
from lowering.machine.estimate import estimate_seconds
from lowering.machine.run import RunResult, run_kernel
from lowering.machine.trace import TraceRow, visit_table

__all__ = [
    "DeadlockError", "MachineError", "RunResult", "TraceRow", "estimate_seconds", "run_kernel",
    "visit_table",
]  # fmt: skip
