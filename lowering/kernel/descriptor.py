"""Where a shared tile lies, as TMA and wgmma are told: byte addresses and matrix descriptors; and
what ``tcgen05.mma`` is told of its types and shape.

The CUDA emitter writes these numbers into the kernel, the machine reads them back.
"""

from __future__ import annotations

from typing import TypeVar

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import Expr
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import SharedBuffer

__all__ = [
    "ADDRESS_BITS", "VERSION_BIT", "block_bytes", "descriptor_template", "instruction_descriptor",
    "leading_bytes", "tile_byte", "wgmma_descriptor",
]  # fmt: skip

ADDRESS_BITS = 18
"""Bits of a shared address that a descriptor holds; its lowest 4 are dropped (16-byte units)."""

VERSION_BIT = 46
"""Where a descriptor has the version of its format: 0 of wgmma, 1 of tcgen05."""

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


def descriptor_template(swizzle: Swizzle, leading: int = 16, version: int = 0) -> int:
    """The 64-bit matrix descriptor of an operand, with an address field of zero.

    Bits (PTX ISA, wgmma matrix descriptor format and "Strides"): 0-13 address / 16, 16-29 leading
    byte offset / 16, 32-45 stride byte offset / 16; 49-51 base offset, 0 because every 8 lines
    start on a multiple of 8 spans; 62-63 swizzle mode. tcgen05 (PTX ISA, "Shared memory
    descriptor") has a version in bits 46-47, and the same modes as 2, 4 and 6 in bits 61-63.

    With a swizzle, lines of one span lie one after the other, and the stride byte offset leads
    from 8 of them to the next 8, here 8 spans. In a K-major operand a line is a row of M or N, and
    the leading byte offset is not used. In an MN-major operand a line is a span of M or N at one
    k, and the leading byte offset leads from it to the next span of M or N at the same k.

    Args:
        swizzle: of the buffer.
        leading: leading byte offset, see :func:`leading_bytes`.
        version: of the format, as the target's instruction wants it.

    Raises:
        InternalError: no swizzle. A row-major tile is none of wgmma's unswizzled layouts.
    """
    if swizzle not in _MODE:
        raise InternalError("descriptor", "wgmma cannot read a row-major tile without a swizzle")
    stride = 8 * swizzle.value
    fields = leading >> 4 << 16 | stride >> 4 << 32 | _MODE[swizzle] << 62
    return fields | version << VERSION_BIT


def wgmma_descriptor(swizzle: Swizzle, address: int, leading: int = 16, version: int = 0) -> int:
    """The descriptor of an operand whose first element lies at shared ``address`` (in bytes)."""
    template = descriptor_template(swizzle, leading, version)
    return template | (address & ((1 << ADDRESS_BITS) - 1)) >> 4


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
