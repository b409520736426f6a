"""Where a shared tile lies, as TMA and wgmma are told: byte addresses and matrix descriptors.

The CUDA emitter writes these numbers into the kernel, the machine reads them back.
"""

from __future__ import annotations

from typing import TypeVar

from lowering.errors import InternalError
from lowering.ir.expr import Expr
from lowering.ir.kernel import SharedBuffer
from lowering.ir.types import Swizzle

__all__ = ["ADDRESS_BITS", "descriptor_template", "tile_byte", "wgmma_descriptor"]

ADDRESS_BITS = 18
"""Bits of a shared address that a descriptor holds; its lowest 4 are dropped (16-byte units)."""

_MODE = {Swizzle.B128: 1, Swizzle.B64: 2, Swizzle.B32: 3}

Index = TypeVar("Index", int, Expr)


def tile_byte(buffer: SharedBuffer, stage: Index, row: Index, col: Index) -> Index:
    """Byte offset of ``[stage, row, col]`` from the start of the buffer, *before* swizzling.

    TMA and wgmma take this address and permute chunks themselves, by absolute address bits.
    ``stage``, ``row`` and ``col`` are numbers or expressions.
    """
    line = buffer.box_cols * buffer.dtype.bytes
    box, inner = col // buffer.box_cols, col % buffer.box_cols
    return (
        stage * buffer.stage_bytes + (box * buffer.rows + row) * line + inner * buffer.dtype.bytes
    )


def descriptor_template(swizzle: Swizzle) -> int:
    """The 64-bit matrix descriptor of a K-major operand, with an address field of zero.

    Bits (PTX ISA, wgmma matrix descriptor format): 0-13 address / 16, 16-29 leading byte offset
    / 16 (not used by the swizzled K-major layouts), 32-45 stride byte offset / 16: from one group
    of 8 rows to the next, here 8 spans; 49-51 base offset, 0 because every 8 rows start on a
    multiple of 8 spans; 62-63 swizzle mode.

    Raises:
        InternalError: no swizzle. A row-major tile is none of wgmma's unswizzled layouts.
    """
    if swizzle not in _MODE:
        raise InternalError("descriptor", "wgmma cannot read a row-major tile without a swizzle")
    leading, stride = 1, 8 * swizzle.value >> 4
    return leading << 16 | stride << 32 | _MODE[swizzle] << 62


def wgmma_descriptor(swizzle: Swizzle, address: int) -> int:
    """The descriptor of an operand whose first element lies at shared ``address`` (in bytes)."""
    return descriptor_template(swizzle) | (address & ((1 << ADDRESS_BITS) - 1)) >> 4
