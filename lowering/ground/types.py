"""Swizzle modes and fragment types of the kernel IR."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lowering.ground.dtypes import DType
from lowering.ground.frozen import quick, replaced
from lowering.ground.layouts import ACCUMULATOR, RegisterLayout

__all__ = ["MOST_STEEP", "FragmentType", "Swizzle"]

MOST_STEEP = 1 << 20
"""Factor of a row or a column where elements of a tile are compared by their places: so two of them
are less than ``2**30`` apart, and a thread compares 32 bits of each.
"""


class Swizzle(Enum):
    """Shared-memory swizzle of TMA and wgmma; the value is its span in bytes, 0 for none.

    Within a span, 16-byte chunk ``c`` of 128-byte line ``l`` is stored at chunk ``c ^ (l % 8)``
    (128), ``c ^ (l // 2 % 4)`` within each 64 bytes (64), ``c ^ (l // 4 % 2)`` within each 32
    bytes (32), where lines are counted in units of the span (PTX ISA, tensor swizzle modes). A span
    of 16 bytes is one chunk and permutes nothing: eight of its lines are a core matrix, which is
    what the matrix instruction reads in its mode without a swizzle. Lines of ``NONE`` are as long
    as the tile's rows.
    """

    NONE = 0
    B16 = 16
    B32 = 32
    B64 = 64
    B128 = 128

    @property
    def permutes(self) -> bool:
        """Whether a chunk may lie elsewhere than in the row's order."""
        return self.value > 16

    def apply(self, address: int) -> int:
        """Byte ``address`` (from a base aligned to 8 spans) with the chunk bits permuted.

        All modes XOR address bits [4, 4 + b) with bits [7, 7 + b), b = log2(span / 16).
        """
        chunks = self.value // 16
        return address ^ (((address >> 7) & (chunks - 1)) << 4) if chunks else address


@quick
@dataclass(frozen=True, slots=True)
class FragmentType:
    """A ``rows x cols`` tile spread over the registers of one warpgroup, as its layout says.

    ``rows`` is a multiple of the layout's unit (64), ``cols`` one of its groups. ``in_flight``
    marks a value that an asynchronous wgmma, or load of tensor memory, may still be writing:
    nothing but wgmma and the wait for it may touch it.

    ``rows`` 1 is a row that all rows share (a bias over N), ``cols`` 1 a column that all columns
    share, both 1 a single value: a thread holds an element once where the full tile repeats it.
    """

    dtype: DType
    rows: int
    cols: int
    in_flight: bool = False
    layout: RegisterLayout = ACCUMULATOR

    @property
    def registers(self) -> int:
        """32-bit registers per thread."""
        return self.blocks * self.block_registers

    @property
    def group_registers(self) -> int:
        """32-bit registers per thread for the elements of one block and group."""
        rows, cols = self.group
        return -(-rows * cols * self.dtype.register_bits // 32)

    @property
    def block_registers(self) -> int:
        """32-bit registers per thread for the elements of one block."""
        return self.groups * self.group_registers

    @property
    def row_bytes(self) -> int:
        """Bytes of a group's columns in one row: 16 are a row of ldmatrix's and stmatrix's."""
        return self.layout.columns * self.dtype.register_bits // 8

    @property
    def blocks(self) -> int:
        """Number of 64-row blocks that a thread holds elements of; 1 where all rows are one."""
        return self.layout.held(self.rows, self.cols)[0]

    @property
    def groups(self) -> int:
        """Number of the layout's groups of columns; 1 where all columns are one."""
        return self.layout.held(self.rows, self.cols)[1]

    @property
    def group(self) -> tuple[int, int]:
        """(rows, columns) of the elements that a thread holds of each block and group."""
        return self.layout.held(self.rows, self.cols)[2:]

    @property
    def held(self) -> tuple[int, int, int, int]:
        """(blocks, groups, rows, columns) of what a thread holds, in register order."""
        return self.layout.held(self.rows, self.cols)

    def settled(self) -> FragmentType:
        """The same type, safe to read."""
        return replaced(self, in_flight=False)

    def flying(self) -> FragmentType:
        """The same type while an asynchronous wgmma may write it."""
        return replaced(self, in_flight=True)

    def __str__(self) -> str:
        tail = "" if self.layout == ACCUMULATOR else f", span {self.layout.span}"
        tail += "" if self.layout.lanes == 4 else f", lanes {self.layout.lanes}"
        tail += "" if self.layout.below == 1 else f", below {self.layout.below}"
        tail += ", async" if self.in_flight else ""
        return f"frag<{self.dtype.value}, {self.rows}x{self.cols}{tail}>"
