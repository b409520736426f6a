"""What a kernel that is launched dependently may touch before the grid in front has ended."""

from __future__ import annotations

from lowering.kernel.kernel import Kernel
from lowering.kernel.memory import TmaLoad
from lowering.kernel.operands import Stmt
from lowering.kernel.tensors import TensorMap
from lowering.kernel.traits import Memory

__all__ = ["loads_early", "waits_for_grids"]


def loads_early(kernel: Kernel) -> bool:
    """Whether a kernel loads anything before the grid in front has ended."""
    return any(m.early for m in kernel.tensor_maps)


def waits_for_grids(kernel: Kernel, stmt: Stmt) -> bool:
    """Whether a statement, without those inside it, stands behind ``griddepcontrol.wait``: all that
    touch global memory do, but for loads through an early map.
    """
    if not stmt.TRAITS.touches & Memory.GLOBAL:
        return False
    read = kernel.find(TensorMap, stmt.src.map) if isinstance(stmt, TmaLoad) else None
    return read is None or not read.early
