"""What statements do with data, told as tiles: loads, products, what is computed, and stores.

The four warps of a warpgroup execute the same (the claim ``warps of a group are alike``), so what
they do together is followed once, in the walk of the first of them. What another warp does alone,
copies and products that one thread issues, is followed there.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.kernel.operands import Stmt
from lowering.proof import multiply, transfers
from lowering.proof.board import Event
from lowering.proof.values import VALUES

__all__ = ["ALONE", "TOGETHER"]

ALONE: Mapping[type[Stmt], Event] = {**multiply.BY_ONE, **transfers.BY_ONE}
"""What one thread does with data."""

TOGETHER: Mapping[type[Stmt], Event] = {
    **ALONE, **multiply.BY_WARPGROUP, **transfers.BY_THREADS, **VALUES
}  # fmt: skip
"""What a warpgroup does with data, and what one of its threads does."""
