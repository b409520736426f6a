"""Operands of matrix instructions in shared memory, read through their 64-bit descriptors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lowering.ground.dtypes import DType
from lowering.ground.types import Swizzle
from lowering.kernel.descriptor import VERSION_BIT, MatrixDescriptor
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array, operand_values
from lowering.machine.memory import SharedMemory, swizzled
from lowering.machine.program import Place
from lowering.machine.state import Warp

__all__ = ["Operand", "descriptor_of", "elements", "mn_major_chunks", "operand_chunks", "where"]

_SWIZZLE = {0: Swizzle.B16, 1: Swizzle.B128, 2: Swizzle.B64, 3: Swizzle.B32}


@dataclass(frozen=True, slots=True)
class Operand:
    """What the instruction is told: a descriptor, the extent of M or N, bytes of K, the major-ness,
    a type.
    """

    descriptor: int
    extent: int
    k_bytes: int
    trans: bool
    dtype: DType

    def require_version(self, version: int) -> None:
        """Raise FaultError unless the descriptor is of the format that the instruction reads."""
        found = self.descriptor >> VERSION_BIT & 3
        if found != version:
            raise FaultError(f"a descriptor of version {found}, the instruction reads {version}")


def descriptor_of(
    operand: Place, trans: bool, warp: Warp, offset: int = 0, version: int = 0
) -> int:
    """Descriptor of an operand; with a base offset of 0 its lines start where the swizzle repeats.

    Only K may start within a line, and it runs along the lines of K-major operands alone.
    """
    b = operand.buffer
    address, span = operand.address(warp.env), b.swizzle.value
    if address % (8 * span) >= (1 if trans else span):
        raise FaultError(
            f"the rows of a wgmma operand start {address % (8 * span)} bytes after a multiple "
            f"of {8 * span}"
        )
    return MatrixDescriptor.of(b, trans).at(address + offset, version)


def elements(memory: SharedMemory, operand: Operand) -> Array:
    """Elements ``[extent, K]`` of an operand, in float32."""
    found = memory.operands.get(operand)
    if found is None or found[0] != memory.version:
        chunks = memory.read_chunks(where(operand))
        bits = chunks.view(operand.dtype.raw).reshape(len(chunks), -1)
        values = operand_values(bits.T if operand.trans else bits, operand.dtype)
        found = memory.version, values
        memory.operands[operand] = found
    return found[1]


def where(operand: Operand) -> Array:
    """The 16-byte chunks (address / 16) of an operand."""
    chunks = mn_major_chunks if operand.trans else operand_chunks
    return chunks(operand.descriptor, operand.extent, operand.k_bytes)


@lru_cache(maxsize=4096)
def operand_chunks(descriptor: int, rows: int, k_bytes: int) -> Array:
    """The 16-byte chunks ``[rows, k_bytes / 16]`` (address / 16) of a K-major operand.

    Decodes the descriptor (see ``MatrixDescriptor``): 8 rows lie a span apart from each other, the
    next 8 a stride byte offset further, and chunks are permuted by absolute address bits. Without a
    swizzle the next 16 bytes of K are a leading byte offset further.
    """
    swizzle = _SWIZZLE[descriptor >> 62]
    start, leading, stride = _fields(descriptor)
    row, byte = np.arange(rows)[:, None], np.arange(0, k_bytes, 16)
    along = byte // 16 * leading if swizzle is Swizzle.B16 else byte
    linear = start + row // 8 * stride + row % 8 * swizzle.value + along
    chunks: Array = swizzled(linear, swizzle) >> 4
    chunks.setflags(write=False)
    return chunks


@lru_cache(maxsize=4096)
def mn_major_chunks(descriptor: int, extent: int, k_bytes: int) -> Array:
    """The 16-byte chunks ``[k_bytes / 2, extent / 8]`` (address / 16) of an MN-major
    operand of 16 bits.

    Decodes the descriptor: a span of M or N at one k is a line; 8 k are 8 lines one after the
    other, the next 8 a stride byte offset further; the next span of M or N is a leading byte offset
    further; without a swizzle the two offsets change places. Chunks are permuted by absolute
    address bits.
    """
    swizzle = _SWIZZLE[descriptor >> 62]
    start, leading, stride = _fields(descriptor)
    if swizzle is Swizzle.B16:
        leading, stride = stride, leading
    k, byte = np.arange(k_bytes // 2)[:, None], np.arange(0, 2 * extent, 16)
    along = byte // swizzle.value * leading + byte % swizzle.value
    linear = start + k // 8 * stride + k % 8 * swizzle.value + along
    chunks: Array = swizzled(linear, swizzle) >> 4
    chunks.setflags(write=False)
    return chunks


def _fields(descriptor: int) -> tuple[int, int, int]:
    """Start address, leading and stride byte offset."""
    start, leading, stride = (descriptor >> bit & 0x3FFF for bit in (0, 16, 32))
    return start << 4, leading << 4, stride << 4
