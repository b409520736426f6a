"""Where a shared tile lies, as TMA and wgmma are told: byte addresses and matrix descriptors; and
what ``tcgen05.mma`` is told of its types and shape.

The CUDA emitter writes these numbers into the kernel, the machine reads them back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import Expr
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import SharedBuffer

__all__ = [
    "ADDRESS_BITS", "VERSION_BIT", "MatrixDescriptor", "block_bytes", "instruction_descriptor",
    "tile_byte",
]  # fmt: skip

ADDRESS_BITS = 18
"""Bits of a shared address that a descriptor holds; its lowest 4 are dropped (16-byte units)."""

VERSION_BIT = 46
"""Where a descriptor has the version of its format: 0 of wgmma, 1 of tcgen05."""

_MODE = {Swizzle.B16: 0, Swizzle.B128: 1, Swizzle.B64: 2, Swizzle.B32: 3}

Index = TypeVar("Index", int, Expr)


def tile_byte(buffer: SharedBuffer, stage: Index, *coords: Index) -> Index:
    """Byte offset of ``[stage, *coords]`` from the start of the buffer, *before* swizzling.

    TMA and wgmma take this address and permute chunks themselves, by absolute address bits.
    ``stage`` and ``coords`` are numbers or expressions.
    """
    width, dtype, col = buffer.box_cols, buffer.dtype, coords[-1]
    box, inner = col // width, col % width
    line = box * buffer.lines + buffer.line(coords)
    within = inner // dtype.packed if dtype.packed > 1 else inner * dtype.bytes
    return stage * buffer.stage_bytes + line * dtype.size(width) + within


def block_bytes(buffer: SharedBuffer, trans: bool) -> int:
    """Bytes from one block of 64 rows of A to the next: 64 lines, or the boxes of 64 columns."""
    span = buffer.swizzle.value
    return 64 // buffer.box_cols * buffer.lines * span if trans else 64 * span


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """What the matrix instruction is told of an operand in shared memory, but for where it begins.

    Lines of one span lie one after the other (PTX ISA, "Strides" of wgmma's operands). In a K-major
    operand a line is a row of M or N, in an MN-major one a span of M or N at one k. Eight lines are
    followed by the next eight, and a box by the next box: where the tile goes on along a line.

    With a swizzle, ``stride`` leads from eight lines to the next, and ``leading`` from a span of M
    or N to the next at the same k; K-major operands do not use it, since an instruction reads
    within a span, and have 16 by convention. Without one (``B16``), ``leading`` leads from a core
    matrix to the next along K, ``stride`` along M or N, whichever of them the lines are.

    Args:
        swizzle: of the buffer.
        leading: leading byte offset.
        stride: stride byte offset.
    """

    swizzle: Swizzle
    leading: int
    stride: int

    @staticmethod
    def of(buffer: SharedBuffer, trans: bool) -> MatrixDescriptor:
        """That of tiles of a buffer, MN-major ones with ``trans``.

        Raises:
            InternalError: rows that lie as they are. No instruction reads them.
        """
        span = buffer.swizzle.value
        if buffer.swizzle not in _MODE:
            why = "wgmma cannot read a row-major tile without a swizzle"
            raise InternalError("descriptor", why)
        lines, box = 8 * span, buffer.lines * span
        if buffer.swizzle is Swizzle.B16:
            along_k, along_mn = (lines, box) if trans else (box, lines)
            return MatrixDescriptor(buffer.swizzle, along_k, along_mn)
        return MatrixDescriptor(buffer.swizzle, box if trans else 16, lines)

    def template(self, version: int = 0) -> int:
        """Its 64 bits with an address field of zero.

        Bits (PTX ISA, wgmma matrix descriptor format): 0-13 address / 16, 16-29 leading byte
        offset / 16, 32-45 stride byte offset / 16; 49-51 base offset, 0 because every 8 lines start
        on a multiple of 8 spans; 62-63 swizzle mode. tcgen05 (PTX ISA, "Shared memory descriptor")
        has a version in bits 46-47, and the same modes as 0, 2, 4 and 6 in bits 61-63.

        Args:
            version: of the format, as the target's instruction wants it.
        """
        fields = self.leading >> 4 << 16 | self.stride >> 4 << 32 | _MODE[self.swizzle] << 62
        return fields | version << VERSION_BIT

    def at(self, address: int, version: int = 0) -> int:
        """The same of an operand whose first element lies at shared ``address`` (in bytes)."""
        return self.template(version) | (address & ((1 << ADDRESS_BITS) - 1)) >> 4


_ACCUMULATORS = {DType.F16: 0, DType.F32: 1}
_OPERANDS = {
    "f16": {DType.F16: 0, DType.BF16: 1},
    "f8f6f4": {DType.E4M3: 0, DType.E5M2: 1},
}
"""By kind, what a type is called."""


def instruction_descriptor(
    kind: str,
    types: tuple[DType, DType, DType],
    rows: int,
    cols: int,
    trans_a: bool = False,
    trans_b: bool = False,
) -> int:
    """What ``tcgen05.mma`` is told of its types and shape, 32 bits.

    Bits (PTX ISA, "Instruction descriptor"): 4-5 type of D, 7-9 of A, 10-12 of B; 15 and 16 A and B
    are MN-major; 17-22 N / 8; 24-28 M / 16.

    Args:
        kind: of the instruction, ``f16`` or ``f8f6f4``.
        types: of A, B and D.
        rows: M.
        cols: N.
        trans_a: A is MN-major.
        trans_b: B is.

    Raises:
        InternalError: the kind has no such type.
    """
    (a, b, d), code = types, _OPERANDS[kind]
    if d not in _ACCUMULATORS or not {a, b} <= code.keys():
        raise InternalError("descriptor", f"kind::{kind} of {a.value} by {b.value} into {d.value}")
    kinds = _ACCUMULATORS[d] << 4 | code[a] << 7 | code[b] << 10
    return kinds | trans_a << 15 | trans_b << 16 | cols >> 3 << 17 | rows >> 4 << 24
