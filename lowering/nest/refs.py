"""References to memory, from one index for each dimension."""

from __future__ import annotations

from collections.abc import Iterable

from lowering.ground.expr import ZERO, Expr
from lowering.kernel.nodes import SmemRef

__all__ = ["smem"]


def smem(name: str, at: Iterable[Expr]) -> SmemRef:
    """An element of a stage of a shared buffer; which stage is decided by a pass."""
    return SmemRef(name, ZERO, tuple(at))
