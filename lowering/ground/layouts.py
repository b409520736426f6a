"""Register layouts: which thread of a warpgroup holds which element of a tile, as values.

All register fragments of wgmma deal a tile out by one formula (PTX ISA, "Register Fragments" of
wgmma.mma_async, accumulator D and matrix A). Four lanes share 8 rows' group of columns, each
``span`` neighbours of it: thread ``t`` (warp ``w = t // 32``, lane ``l = t % 32``) holds, for each
64-row block ``b``, each group ``j`` of ``4 span`` columns, and each half ``h``, the elements

    row 64 b + 16 w + l // 4 + 8 h,  columns 4 span j + span (l % 4) + (0 .. span)

in that order of registers. What differs is ``span``: 2 for accumulators and for A of 16 bits (so a
product rounded to 16 bits is an A operand of the next), 4 for A of 8 bits, 1 for A of 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError

__all__ = ["ACCUMULATOR", "BLOCK_ROWS", "RegisterLayout", "operand_layout"]

BLOCK_ROWS = 64
"""Rows that the 128 threads hold of each block."""


@dataclass(frozen=True, slots=True)
class RegisterLayout:
    """How the elements of a tile are dealt out to the threads of a warpgroup.

    A tile of one row or one column, which all rows or columns share, is dealt out as a tile is that
    repeats it, each element once to a thread: a slice of the layout.

    Args:
        span: neighbouring columns that a thread holds together.
    """

    span: int

    @property
    def columns(self) -> int:
        """Columns of a group; a tile has whole groups."""
        return 4 * self.span

    def held(self, rows: int, cols: int) -> tuple[int, int, int, int]:
        """(blocks, groups, halves, columns) that a thread holds of a tile, in register order."""
        blocks, halves = (rows // BLOCK_ROWS, 2) if rows > 1 else (1, 1)
        groups, columns = (cols // self.columns, self.span) if cols > 1 else (1, 1)
        return blocks, groups, halves, columns

    def row(self, warp: Any, lane: Any, block: Any, half: Any, first: Any = 0) -> Any:
        """Row of an element, of numbers, arrays or scalar expressions alike.

        Args:
            warp: of the warpgroup, 0 to 3.
            lane: of the warp.
            block: of 64 rows.
            half: 0, or 1 for the row 8 below.
            first: row of the tile's first element.
        """
        return first + block * BLOCK_ROWS + warp * 16 + lane // 4 + half * 8

    def column(self, lane: Any, group: Any, inner: Any, first: Any = 0) -> Any:
        """Column of an element, ``inner`` from the first that its thread holds of the group."""
        return first + group * self.columns + lane % 4 * self.span + inner

    def owner(self, row: int, col: int) -> tuple[int, int, tuple[int, int, int, int]]:
        """Who holds an element of a whole tile: (warp, lane, its index in what ``held`` counts)."""
        block, at = divmod(row, BLOCK_ROWS)
        warp, at = divmod(at, 16)
        half, line = divmod(at, 8)
        group, at = divmod(col, self.columns)
        quarter, inner = divmod(at, self.span)
        return warp, 4 * line + quarter, (block, group, half, inner)


ACCUMULATOR = RegisterLayout(2)
"""Of wgmma's accumulators, and of all values that are computed from them."""


def operand_layout(dtype: DType) -> RegisterLayout:
    """Layout of a matrix A that wgmma takes from registers: a register has neighbours of a row.

    Raises:
        UnsupportedError: wgmma takes no such elements.
    """
    if dtype.register_bits not in (8, 16, 32):
        raise UnsupportedError(f"A of {dtype.value} in registers", "elements of 8, 16 or 32 bits")
    return RegisterLayout(32 // dtype.register_bits)
