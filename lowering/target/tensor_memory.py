"""Tensor memory: where a GPU keeps the accumulators of its matrix instruction, beside registers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LANES", "TensorMemory"]

LANES = 128
"""Of all tensor memories that there are (PTX ISA, Tensor Memory Addressing)."""


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """Lanes by columns of 32-bit cells, of each multiprocessor.

    An address has the lane in bits 31 to 16 and the column in bits 15 to 0.

    Args:
        lanes: rows of it; of them each warp of a warpgroup reaches a quarter.
        columns: of an SM, for all CTAs on it.
        least: columns that an allocation has at least; it has a power of two of them.
    """

    lanes: int
    columns: int
    least: int

    @property
    def quarter(self) -> int:
        """Lanes that a warp reaches: the ones from so many times its number, modulo 4, on."""
        return self.lanes // 4

    def allocated(self, columns: int) -> int:
        """Columns of the smallest allocation that has as many: a power of two."""
        return max(self.least, 1 << (columns - 1).bit_length())

    def problem(self, columns: int) -> str | None:
        """Why an allocation cannot have so many columns; None if it can."""
        if self.least <= columns <= self.columns and columns & (columns - 1) == 0:
            return None
        return f"an allocation has a power of two of columns from {self.least} to {self.columns}"
