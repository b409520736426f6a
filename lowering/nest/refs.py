"""References to memory, from one index for each dimension."""

from __future__ import annotations

from collections.abc import Iterable

from lowering.ground.expr import ZERO, Expr
from lowering.kernel.nodes import GmemRef, SmemRef

__all__ = ["gmem", "smem"]


def gmem(name: str, at: Iterable[Expr]) -> GmemRef:
    """An element of a tensor in global memory, by its indices in the order of memory."""
    return GmemRef(name, tuple(at))


def smem(name: str, at: Iterable[Expr]) -> SmemRef:
    """An element of a stage of a shared buffer; which stage is decided by a pass."""
    return SmemRef(name, ZERO, tuple(at))
