"""What the passes may choose: a frozen record that every pass takes and the dumps print."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LoweringOptions"]


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """Options of the lowering.

    Args:
        num_registers: registers per thread of the (load, compute) roles after reallocation, or
            None to leave them as they are at entry.
        store_buffers: shared-memory buffers of the epilogue per warpgroup; a TMA store may be in
            flight from each.
    """

    num_registers: tuple[int, int] | None = (40, 232)
    store_buffers: int = 2
