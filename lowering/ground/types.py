"""Swizzle modes and fragment types of the kernel IR."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from lowering.ground.dtypes import DType

__all__ = ["FragmentType", "Swizzle"]


class Swizzle(Enum):
    """Shared-memory swizzle of TMA and wgmma; the value is its span in bytes, 0 for none.

    Within a span, 16-byte chunk ``c`` of 128-byte line ``l`` is stored at chunk ``c ^ (l % 8)``
    (128), ``c ^ (l // 2 % 4)`` within each 64 bytes (64), ``c ^ (l // 4 % 2)`` within each 32
    bytes (32), where lines are counted in units of the span (PTX ISA, tensor swizzle modes).
    """

    NONE = 0
    B32 = 32
    B64 = 64
    B128 = 128

    def apply(self, address: int) -> int:
        """Byte ``address`` (from a base aligned to 8 spans) with the chunk bits permuted.

        All three modes XOR address bits [4, 4 + b) with bits [7, 7 + b), b = log2(span / 16).
        """
        chunks = self.value // 16
        return address ^ (((address >> 7) & (chunks - 1)) << 4) if chunks else address


@dataclass(frozen=True, slots=True)
class FragmentType:
    """A ``rows x cols`` tile spread over the registers of one warpgroup, as wgmma leaves it.

    ``rows`` is a multiple of 64. Thread ``t`` of the 128 (warp ``w = t // 32``, lane
    ``l = t % 32``) holds, for each 64-row block ``b`` and each 8 columns ``j``, four elements: rows
    ``64 b + 16 w + l // 4`` and that plus 8, columns ``8 j + 2 (l % 4)`` and that plus 1
    (PTX ISA, wgmma accumulator layout). ``in_flight`` marks a value that an asynchronous wgmma
    may still be writing: nothing but wgmma and ``wgmma.wait`` may touch it.

    ``rows`` 1 is a row that all rows share (a bias over N), ``cols`` 1 a column that all columns
    share, both 1 a single value: a thread holds an element once where the full tile repeats it (two
    a block of 8 columns, two a block of 64 rows, one).
    """

    dtype: DType
    rows: int
    cols: int
    in_flight: bool = False

    @property
    def registers(self) -> int:
        """32-bit registers per thread."""
        rows, cols = self.group
        return self.blocks * self.groups * -(-rows * cols * self.dtype.register_bits // 32)

    @property
    def blocks(self) -> int:
        """Number of 64-row blocks that a thread holds elements of; 1 where all rows are one."""
        return self.rows // 64 if self.rows > 1 else 1

    @property
    def groups(self) -> int:
        """Number of groups of 8 columns; 1 where all columns are one."""
        return self.cols // 8 if self.cols > 1 else 1

    @property
    def group(self) -> tuple[int, int]:
        """(rows, columns) of the elements that a thread holds of each block and group."""
        return 2 if self.rows > 1 else 1, 2 if self.cols > 1 else 1

    def settled(self) -> FragmentType:
        """The same type, safe to read."""
        return replace(self, in_flight=False)

    def flying(self) -> FragmentType:
        """The same type while an asynchronous wgmma may write it."""
        return replace(self, in_flight=True)

    def __str__(self) -> str:
        tail = ", async" if self.in_flight else ""
        return f"frag<{self.dtype.value}, {self.rows}x{self.cols}{tail}>"
