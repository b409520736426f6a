"""Matrix descriptors, tile addresses, and their reading by the machine."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import Var
from lowering.ground.types import Swizzle
from lowering.kernel.descriptor import MatrixDescriptor, block_bytes, tile_byte
from lowering.kernel.kernel import SharedBuffer
from lowering.machine.memory import SHARED_BASE, swizzled
from lowering.machine.operands import mn_major_chunks, operand_chunks

SWIZZLES = [Swizzle.B128, Swizzle.B64, Swizzle.B32, Swizzle.B16]


def buffer(shape: tuple[int, int], swizzle: Swizzle, stages: int = 1) -> SharedBuffer:
    return SharedBuffer("b", DType.F16, stages, shape, swizzle, 2048)


def test_a_tile_of_several_matrices_begins_where_its_first_line_is() -> None:
    b = SharedBuffer("b", DType.F16, 2, (3, 8, 64), Swizzle.B128, 2048)
    for stage, matrix, row, col in ((0, 0, 0, 0), (1, 0, 0, 16), (0, 2, 0, 0), (1, 1, 5, 48)):
        line = (stage * 3 + matrix) * 8 + row
        assert tile_byte(b, stage, matrix, row, col) == 128 * line + 2 * col


@pytest.mark.parametrize(
    ("swizzle", "bits"),
    [
        (Swizzle.B128, 1 << 62 | 64 << 32 | 1 << 16 | 0x440),
        (Swizzle.B64, 2 << 62 | 32 << 32 | 1 << 16 | 0x440),
        (Swizzle.B32, 3 << 62 | 16 << 32 | 1 << 16 | 0x440),
        (Swizzle.B16, 0 << 62 | 8 << 32 | 96 << 16 | 0x440),
    ],
)
def test_bits(swizzle: Swizzle, bits: int) -> None:
    """Without a swizzle 96 core matrices' lines of 16 bytes lie between two of a row's."""
    found = MatrixDescriptor.of(buffer((96, 128), swizzle), False)
    assert found.at(0x4400) == bits
    assert found.template() == bits - 0x440


@pytest.mark.parametrize(("trans", "leading", "stride"), [(False, 64, 8), (True, 8, 64)])
def test_offsets_without_a_swizzle(trans: bool, leading: int, stride: int) -> None:
    """PTX ISA, "Strides": the leading byte offset is along K, the stride along M or N, whichever of
    them a box of 64 lines goes on along; in units of 16 bytes.
    """
    bits = MatrixDescriptor.of(buffer((64, 64), Swizzle.B16), trans).template()
    assert (bits >> 16 & 0x3FFF, bits >> 32 & 0x3FFF, bits >> 62) == (leading, stride, 0)


def test_chunks_without_a_swizzle() -> None:
    """Rows of 16 bytes one after the other, the next 16 bytes of K behind all of them."""
    bits = MatrixDescriptor.of(buffer((64, 64), Swizzle.B16), False).at(0x4400)
    row, k = np.arange(64)[:, None], np.arange(4)
    assert np.array_equal(operand_chunks(bits, 64, 64), 0x440 + row + 64 * k)


def test_refuses_a_row_major_operand() -> None:
    with pytest.raises(InternalError) as error:
        MatrixDescriptor.of(buffer((64, 64), Swizzle.NONE), False)
    assert str(error.value).splitlines()[0] == (
        "descriptor: wgmma cannot read a row-major tile without a swizzle"
    )


def test_tile_byte_takes_numbers_and_expressions() -> None:
    b = buffer((64, 128), Swizzle.B128, 2)
    assert tile_byte(b, 1, 3, 80) == 16384 + (64 + 3) * 128 + 16 * 2
    assert str(tile_byte(b, Var("s"), Var("r"), Var("c"))) == (
        "s * 16384 + (c // 64 * 64 + r) * 128 + c % 64 * 2"
    )


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_hardware_swizzle_is_the_buffers(swizzle: Swizzle) -> None:
    addresses = np.arange(0, 4096, 2)
    assert swizzled(addresses, swizzle).tolist() == [swizzle.apply(a) for a in addresses.tolist()]
    assert np.array_equal(swizzled(addresses, Swizzle.NONE), addresses)


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_descriptor_finds_the_elements_of_the_buffer(swizzle: Swizzle) -> None:
    """The same bytes as ``SharedBuffer.byte``, although only the start and two strides are told."""
    b = buffer((32, max(2 * swizzle.value // 2, 48)), swizzle, 2)
    for col in range(0, b.cols, 16):
        start = SHARED_BASE + 2048 + tile_byte(b, 1, 8, col)
        chunks = operand_chunks(MatrixDescriptor.of(b, False).at(start), 24, 32)
        want = [
            [(SHARED_BASE + 2048 + b.byte(1, 8 + r, col + c)) // 16 for c in (0, 8)]
            for r in range(24)
        ]
        assert chunks.tolist() == want


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_mn_major_descriptor_finds_the_elements_of_the_buffer(swizzle: Swizzle) -> None:
    """Rows of the buffer are K: 16 of them, and three boxes of M or N."""
    span = swizzle.value // 2
    b = buffer((48, 4 * span), swizzle, 2)
    for k, mn in ((0, 0), (16, 0), (32, span)):
        start = SHARED_BASE + 2048 + tile_byte(b, 1, k, mn)
        descriptor = MatrixDescriptor.of(b, True).at(start)
        want = [
            [(SHARED_BASE + 2048 + b.byte(1, k + r, mn + c)) // 16 for c in range(0, 3 * span, 8)]
            for r in range(16)
        ]
        assert mn_major_chunks(descriptor, 3 * span, 32).tolist() == want


def test_bits_of_an_mn_major_descriptor() -> None:
    """The stride leads to the next 8 k, the leading byte offset over a box of 64 k."""
    found = MatrixDescriptor.of(buffer((64, 256), Swizzle.B128), True)
    assert found == MatrixDescriptor(Swizzle.B128, 64 * 128, 1024)
    assert found.at(0x4400) == 1 << 62 | 1024 // 16 << 32 | 64 * 128 // 16 << 16 | 0x440


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_blocks_of_64_rows(swizzle: Swizzle) -> None:
    k_major = SharedBuffer("a", DType.BF16, 1, (128, swizzle.value // 2), swizzle, 0)
    mn_major = SharedBuffer("a", DType.BF16, 1, (64, 128), swizzle, 0)
    assert block_bytes(k_major, False) == tile_byte(k_major, 0, 64, 0)
    assert block_bytes(mn_major, True) == tile_byte(mn_major, 0, 0, 64)
