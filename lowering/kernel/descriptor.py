"""Where a shared tile lies, as TMA and wgmma are told: byte addresses and matrix descriptors.

The CUDA emitter writes these numbers into the kernel, the machine reads them back.
"""

from __future__ import annotations

from typing import TypeVar

from lowering.ground.errors import InternalError
from lowering.ground.expr import Expr
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import SharedBuffer

__all__ = [
    "ADDRESS_BITS", "block_bytes", "descriptor_template", "leading_bytes", "tile_byte",
    "wgmma_descriptor",
]  # fmt: skip

ADDRESS_BITS = 18
"""Bits of a shared address that a descriptor holds; its lowest 4 are dropped (16-byte units)."""

_MODE = {Swizzle.B128: 1, Swizzle.B64: 2, Swizzle.B32: 3}

Index = TypeVar("Index", int, Expr)


def tile_byte(buffer: SharedBuffer, stage: Index, *coords: Index) -> Index:
    """Byte offset of ``[stage, *coords]`` from the start of the buffer, *before* swizzling.

    TMA and wgmma take this address and permute chunks themselves, by absolute address bits.
    ``stage`` and ``coords`` are numbers or expressions.
    """
    width, size, col = buffer.box_cols, buffer.dtype.bytes, coords[-1]
    box, inner = col // width, col % width
    line = box * buffer.lines + buffer.line(coords)
    return stage * buffer.stage_bytes + line * (width * size) + inner * size


def leading_bytes(buffer: SharedBuffer, trans: bool) -> int:
    """Leading byte offset of an operand's descriptor.

    For an MN-major operand (``trans``) the distance of two spans of M or N: a whole box, since a
    tile is stored box after box. K-major operands with a swizzle do not use it; 16 by convention.
    """
    return buffer.lines * buffer.swizzle.value if trans else 16


def block_bytes(buffer: SharedBuffer, trans: bool) -> int:
    """Bytes from one block of 64 rows of A to the next: 64 lines, or the boxes of 64 columns."""
    span = buffer.swizzle.value
    return 64 // buffer.box_cols * buffer.lines * span if trans else 64 * span


def descriptor_template(swizzle: Swizzle, leading: int = 16) -> int:
    """The 64-bit matrix descriptor of an operand, with an address field of zero.

    Bits (PTX ISA, wgmma matrix descriptor format and "Strides"): 0-13 address / 16, 16-29 leading
    byte offset / 16, 32-45 stride byte offset / 16; 49-51 base offset, 0 because every 8 lines
    start on a multiple of 8 spans; 62-63 swizzle mode.

    With a swizzle, lines of one span lie one after the other, and the stride byte offset leads
    from 8 of them to the next 8, here 8 spans. In a K-major operand a line is a row of M or N, and
    the leading byte offset is not used. In an MN-major operand a line is a span of M or N at one
    k, and the leading byte offset leads from it to the next span of M or N at the same k.

    Args:
        swizzle: of the buffer.
        leading: leading byte offset, see :func:`leading_bytes`.

    Raises:
        InternalError: no swizzle. A row-major tile is none of wgmma's unswizzled layouts.
    """
    if swizzle not in _MODE:
        raise InternalError("descriptor", "wgmma cannot read a row-major tile without a swizzle")
    stride = 8 * swizzle.value
    return leading >> 4 << 16 | stride >> 4 << 32 | _MODE[swizzle] << 62


def wgmma_descriptor(swizzle: Swizzle, address: int, leading: int = 16) -> int:
    """The descriptor of an operand whose first element lies at shared ``address`` (in bytes)."""
    return descriptor_template(swizzle, leading) | (address & ((1 << ADDRESS_BITS) - 1)) >> 4
