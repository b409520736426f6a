"""What the passes may choose: a frozen record that every pass takes and the dumps print."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LoweringOptions"]


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """Options of the lowering.

    Args:
        store_buffers: shared-memory buffers of the epilogue per warpgroup; a TMA store may be in
            flight from each.
        trace_slots: stamps that a warp of a traced kernel has room for; 0 for a kernel without
            stamps.
    """

    store_buffers: int = 2
    trace_slots: int = 0
