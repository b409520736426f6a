"""What a stage has beside rows by index: what gate and up of experts have, or nothing."""

from __future__ import annotations

from enum import Enum

from lowering.target.ptx import WIDEST_SWIZZLE

__all__ = ["COLUMNS", "WEIGHTS", "Beside"]

COLUMNS = WIDEST_SWIZZLE // 2
"""Of a stage, of 16 bits: a line is a swizzle span, as wgmma reads it."""

WEIGHTS = 128
"""Rows of a box of weights; a stage has one of gate and one of up."""


class Beside(Enum):
    """What lies beside rows by index, and who reads it."""

    NOTHING = "nothing"
    """Nobody reads the rows."""

    WEIGHTS = "weights"
    """Two boxes of weights; nobody reads either."""

    PRODUCTS = "products"
    """Two boxes of weights, which a warpgroup multiplies by the rows."""

    @property
    def rows(self) -> int:
        """Rows of weights in a stage."""
        return 0 if self is Beside.NOTHING else 2 * WEIGHTS

    @property
    def bytes(self) -> int:
        """Bytes of weights in a stage."""
        return self.rows * WIDEST_SWIZZLE

    def loads(self, stage: str, slice_: str) -> str:
        """The copies of a stage's weights."""
        return "\n".join(
            f"tma.load W[{stage}, {row}, 0], V[strip * {self.rows} + {row}, {slice_} * {COLUMNS}]"
            f", bar=full[{stage}]"
            for row in range(0, self.rows, WEIGHTS)
        )
