"""Blackwell's limits, and what its instruction is told, against constants from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.layouts import ACCUMULATOR, LANES, RegisterLayout
from lowering.ground.types import Swizzle
from lowering.kernel.descriptor import MatrixDescriptor, instruction_descriptor
from lowering.kernel.kernel import SharedBuffer
from lowering.kernel.lexer import IRSyntaxError
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.target.blackwell import BLACKWELL, BLACKWELL_PAIRS, TCGEN05
from lowering.target.hopper import HOPPER
from lowering.target.targets import grouped, named, of_macro, require
from lowering.target.tensor_memory import TensorMemory

HALF, BF16, F32 = DType.F16, DType.BF16, DType.F32
E4M3, E5M2 = DType.E4M3, DType.E5M2


@pytest.mark.parametrize(
    ("types", "rows", "cols", "trans_b", "bits"),
    [
        ((E4M3, E5M2, F32), 128, 128, False, 1 << 4 | 1 << 10 | 16 << 17 | 8 << 24),
        ((HALF, HALF, F32), 128, 128, False, 136314896),  # of another compiler's kernels
        ((HALF, HALF, F32), 128, 128, True, 136380432),
        ((BF16, BF16, F32), 128, 256, False, 1 << 4 | 1 << 7 | 1 << 10 | 32 << 17 | 8 << 24),
        ((HALF, HALF, HALF), 64, 16, False, 2 << 17 | 4 << 24),
    ],
)
def test_instruction_descriptor(
    types: tuple[DType, DType, DType], rows: int, cols: int, trans_b: bool, bits: int
) -> None:
    kind = "f8f6f4" if types[0] is E4M3 else "f16"
    assert instruction_descriptor(kind, types, rows, cols, False, trans_b) == bits


def test_no_kind_for_other_types() -> None:
    with pytest.raises(InternalError, match="kind::f16 of e4m3 by e4m3 into f32"):
        instruction_descriptor("f16", (E4M3, E4M3, F32), 128, 128)


@pytest.mark.parametrize(
    ("swizzle", "layout", "stride"),
    [(Swizzle.B128, 2, 1024), (Swizzle.B64, 4, 512), (Swizzle.B32, 6, 256), (Swizzle.B16, 0, 128)],
)
def test_matrix_descriptor(swizzle: Swizzle, layout: int, stride: int) -> None:
    """Bits 61 to 63 are the layout, 46 and 47 the version; else it is wgmma's."""
    buffer = SharedBuffer("a", DType.BF16, 1, (128, 64), swizzle)
    descriptor = MatrixDescriptor.of(buffer, False)
    found, leading = descriptor.template(TCGEN05.version), 128 if swizzle is Swizzle.B16 else 1
    assert found == layout << 61 | 1 << 46 | stride >> 4 << 32 | leading << 16
    assert found ^ descriptor.template() == 1 << 46
    if swizzle is Swizzle.B128:
        assert found >> 32 == 0x40004040


def test_allocations_are_powers_of_two() -> None:
    memory = BLACKWELL.tensor_memory
    assert memory == TensorMemory(lanes=128, columns=512, least=32)
    assert [memory.allocated(n) for n in (1, 32, 33, 96, 256, 257, 512)] == [
        32, 32, 64, 128, 256, 512, 512,
    ]  # fmt: skip
    why = "an allocation has a power of two of columns from 32 to 512"
    for columns in (16, 48, 96, 1024):  # what ptxas 12.8 refuses
        assert memory.problem(columns) == why
    assert memory.problem(64) is None


def test_a_load_leaves_registers_as_wgmma_does_but_for_the_rows() -> None:
    """``16x256b``: lane l, register r: row l / 4 + 8 (r / 2 % 2), column 8 (r / 4) + 2 (l % 4) +
    r % 2 of 16 lanes; a warp reaches 32 of them.
    """
    assert RegisterLayout(2, below=2) == LANES
    for warp in range(4):
        for lane in range(32):
            for r in range(16):
                block, group, half, inner = r // 8, r // 4 % 2, r // 2 % 2, r % 2
                row = LANES.row(warp, lane, block, half)
                assert row == 32 * warp + 16 * block + lane // 4 + 8 * half
                col = LANES.column(lane, group, inner)
                assert col == ACCUMULATOR.column(lane, group, inner)
                assert LANES.owner(row, col) == (warp, lane, (block, group, half, inner))
    assert LANES.row(1, 0, 2, 0) == 128 + 32
    assert LANES.owner(128 + 32 + 16, 0) == (1, 0, (3, 0, 0, 0))


def test_pairs_are_the_same_gpu() -> None:
    """Only the instruction differs: its name in nvFuser, its CTAs, its columns."""
    assert replace(BLACKWELL_PAIRS, mma=TCGEN05) == BLACKWELL
    mma = BLACKWELL_PAIRS.mma
    assert (mma.ctas, mma.m, mma.macro, mma.layout) == (2, 128, "Blackwell2CTA", TCGEN05.layout)
    assert mma.problem(BF16, BF16, F32, 48) is not None
    assert mma.problem(BF16, BF16, F32, 256) is None
    assert named("sm_100a.cta_group::2") is of_macro("Blackwell2CTA") is BLACKWELL_PAIRS
    assert grouped("sm_100a") == {1: BLACKWELL, 2: BLACKWELL_PAIRS}
    assert grouped("sm_90a") == {1: HOPPER}
    with pytest.raises(UnsupportedError, match=r"the target sm_90a.cta_group::2 is not supported"):
        named("sm_90a.cta_group::2")


def test_a_kernel_in_pairs_as_text() -> None:
    text = "kernel k threads 128 cluster 2 target sm_100a cta_group 2 grid 2 {\n}\n"
    kernel = parse_kernel(text)
    assert kernel.target is BLACKWELL_PAIRS and print_kernel(kernel) == text
    with pytest.raises(IRSyntaxError, match="a cta_group: 1, 2"):
        parse_kernel(text.replace("group 2", "group 4"))
    with pytest.raises(IRSyntaxError, match="a cta_group: 1"):
        parse_kernel(text.replace("sm_100a", "sm_90a"))


def test_a_device_takes_kernels_of_either() -> None:
    device = SimpleNamespace(cuda=SimpleNamespace(get_device_capability=lambda _: (10, 0)))
    for target in (BLACKWELL, BLACKWELL_PAIRS):
        require(device, 0, target)
    with pytest.raises(UnsupportedError, match=r"a GPU of compute capability 10\.0"):
        require(device, 0, HOPPER)
