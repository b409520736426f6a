"""Register layouts: which thread of a warpgroup holds which element of a tile, as values.

All register fragments of wgmma deal a tile out by one formula (PTX ISA, "Register Fragments" of
wgmma.mma_async, accumulator D and matrix A). Four lanes share 8 rows' group of columns, each
``span`` neighbours of it: thread ``t`` (warp ``w = t // 32``, lane ``l = t % 32``) holds, for each
64-row block ``b``, each group ``j`` of ``4 span`` columns, and each half ``h``, the elements

    row 64 b + 16 w + l // 4 + 8 h,  columns 4 span j + span (l % 4) + (0 .. span)

in that order of registers. What differs is ``span``: 2 for accumulators and for A of 16 bits (so a
product rounded to 16 bits is an A operand of the next), 4 for A of 8 bits, 1 for A of 32.

Tensor memory is read in the same order of registers, but a warp reaches a quarter of its lanes
only (PTX ISA, ``tcgen05.ld``): where an instruction has 128 rows, two blocks of 16 rows of a warp
lie one below the other. ``below`` counts them: 1 of wgmma, 2 there.

Where no wgmma is near, a row may as well be dealt out to other than four lanes, from one to a warp,
which reads it in pieces of 16 bytes side by side: the formula has ``lanes`` for 4, and blocks of as
many rows as 128 threads then hold two of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError

__all__ = ["ACCUMULATOR", "BLOCK_ROWS", "LANES", "RegisterLayout", "operand_layout"]

BLOCK_ROWS = 64
"""Rows that the 128 threads hold of each block of wgmma's layouts."""


@dataclass(frozen=True, slots=True)
class RegisterLayout:
    """How the elements of a tile are dealt out to the threads of a warpgroup.

    A tile of one row or one column, which all rows or columns share, is dealt out as a tile is that
    repeats it, each element once to a thread: a slice of the layout.

    Args:
        span: neighbouring columns that a thread holds together.
        lanes: that share a row, a power of two up to 32.
        below: blocks of a warp whose rows follow each other, in front of those of the next warp.
    """

    span: int
    lanes: int = 4
    below: int = 1

    @property
    def columns(self) -> int:
        """Columns of a group; a tile has whole groups."""
        return self.lanes * self.span

    @property
    def rows(self) -> int:
        """Rows that the 128 threads hold of each block: 64 of wgmma's layouts."""
        return 8 * self._apart

    @property
    def unit(self) -> int:
        """Rows after which the order of rows begins anew; a tile has whole units."""
        return self.rows * self.below

    @property
    def distances(self) -> tuple[int, ...]:
        """How far apart lanes of a row are, bit by bit of their number."""
        return tuple(1 << bit for bit in range(self.lanes.bit_length() - 1))

    @property
    def _apart(self) -> int:
        """Rows from one half of a warp's part of a block to the other."""
        return 32 // self.lanes

    def held(self, rows: int, cols: int) -> tuple[int, int, int, int]:
        """(blocks, groups, halves, columns) that a thread holds of a tile, in register order."""
        blocks, halves = (rows // self.rows, 2) if rows > 1 else (1, 1)
        groups, columns = (cols // self.columns, self.span) if cols > 1 else (1, 1)
        return blocks, groups, halves, columns

    def row(self, warp: Any, lane: Any, block: Any, half: Any, first: Any = 0) -> Any:
        """Row of an element, of numbers, arrays or scalar expressions alike.

        Args:
            warp: of the warpgroup, 0 to 3.
            lane: of the warp.
            block: of as many rows.
            half: 0, or 1 for the row that is as many below as the warp has beside each other.
            first: row of the tile's first element.
        """
        deep = 2 * self._apart * self.below
        return first + self.down(block, half) + warp * deep + lane // self.lanes

    def down(self, block: Any, half: Any) -> Any:
        """Rows from the first that a thread holds to another of its rows."""
        apart = self._apart
        if self.below == 1:
            return block * self.rows + half * apart
        unit, under = block // self.below, block % self.below
        return unit * self.unit + (2 * under + half) * apart

    def column(self, lane: Any, group: Any, inner: Any, first: Any = 0) -> Any:
        """Column of an element, ``inner`` from the first that its thread holds of the group."""
        return first + self.right(group, inner) + lane % self.lanes * self.span

    def right(self, group: Any, inner: Any) -> Any:
        """Columns from the first that a thread holds to another of its columns."""
        return group * self.columns + inner

    def owner(self, row: int, col: int) -> tuple[int, int, tuple[int, int, int, int]]:
        """Who holds an element of a whole tile: (warp, lane, its index in what ``held`` counts)."""
        unit, at = divmod(row, self.unit)
        warp, at = divmod(at, 2 * self._apart * self.below)
        below, at = divmod(at, 2 * self._apart)
        block = unit * self.below + below
        half, line = divmod(at, self._apart)
        group, at = divmod(col, self.columns)
        quarter, inner = divmod(at, self.span)
        return warp, self.lanes * line + quarter, (block, group, half, inner)


ACCUMULATOR = RegisterLayout(2)
"""Of wgmma's accumulators, and of all values that are computed from them."""

LANES = RegisterLayout(2, below=2)
"""Of what is read from 128 lanes of tensor memory by ``tcgen05.ld.16x256b``, and of all values that
are computed from it.
"""


def operand_layout(dtype: DType) -> RegisterLayout:
    """Layout of a matrix A that wgmma takes from registers: a register has neighbours of a row.

    Raises:
        UnsupportedError: wgmma takes no such elements.
    """
    if dtype.register_bits not in (8, 16, 32):
        raise UnsupportedError(f"A of {dtype.value} in registers", "elements of 8, 16 or 32 bits")
    return RegisterLayout(32 // dtype.register_bits)
