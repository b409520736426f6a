"""Matrix descriptors, tile addresses, and their reading by the machine."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.descriptor import descriptor_template, tile_byte, wgmma_descriptor
from lowering.errors import InternalError
from lowering.ir.expr import Var
from lowering.ir.kernel import SharedBuffer
from lowering.ir.types import DType, Swizzle
from lowering.machine.compute import operand_chunks
from lowering.machine.memory import SHARED_BASE, swizzled

SWIZZLES = [Swizzle.B128, Swizzle.B64, Swizzle.B32]


@pytest.mark.parametrize(
    ("swizzle", "bits"),
    [
        (Swizzle.B128, 1 << 62 | 64 << 32 | 1 << 16 | 0x440),
        (Swizzle.B64, 2 << 62 | 32 << 32 | 1 << 16 | 0x440),
        (Swizzle.B32, 3 << 62 | 16 << 32 | 1 << 16 | 0x440),
    ],
)
def test_bits(swizzle: Swizzle, bits: int) -> None:
    assert wgmma_descriptor(swizzle, 0x4400) == bits
    assert descriptor_template(swizzle) == bits - 0x440


def test_refuses_an_unswizzled_operand() -> None:
    with pytest.raises(InternalError) as error:
        descriptor_template(Swizzle.NONE)
    assert str(error.value).splitlines()[0] == (
        "descriptor: wgmma cannot read a row-major tile without a swizzle"
    )


def test_tile_byte_takes_numbers_and_expressions() -> None:
    buffer = SharedBuffer("a", DType.BF16, 2, 64, 128, Swizzle.B128, 0)
    assert tile_byte(buffer, 1, 3, 80) == 16384 + (64 + 3) * 128 + 16 * 2
    assert str(tile_byte(buffer, Var("s"), Var("r"), Var("c"))) == (
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
    buffer = SharedBuffer("b", DType.F16, 2, 32, 2 * swizzle.value // 2, swizzle, 2048)
    for col in range(0, buffer.cols, 16):
        start = SHARED_BASE + 2048 + tile_byte(buffer, 1, 8, col)
        chunks = operand_chunks(wgmma_descriptor(swizzle, start), 24)
        want = [
            [(SHARED_BASE + 2048 + buffer.byte(1, 8 + r, col + c)) // 16 for c in (0, 8)]
            for r in range(24)
        ]
        assert chunks.tolist() == want
