"""Register layouts: each element has one owner, and it is the one of PTX's figures."""

from __future__ import annotations

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.layouts import ACCUMULATOR, LANES, RegisterLayout, operand_layout
from lowering.ground.types import FragmentType
from lowering.kernel.text import parse_kernel, print_kernel

WIDE = tuple(RegisterLayout(8, lanes) for lanes in (1, 2, 4, 8, 16, 32))
LAYOUTS = (RegisterLayout(1), ACCUMULATOR, RegisterLayout(4), LANES, *WIDE)


def places(layout: RegisterLayout, rows: int, cols: int) -> list[tuple[int, int]]:
    """Row and column of all elements of a tile: by warp, lane and register."""
    blocks, groups, halves, columns = layout.held(rows, cols)
    return [
        (layout.row(w, t, b, h), layout.column(t, j, e))
        for w in range(4) for t in range(32) for b in range(blocks) for j in range(groups)
        for h in range(halves) for e in range(columns)
    ]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_element_has_one_owner(layout: RegisterLayout) -> None:
    rows, cols = 2 * layout.rows, 3 * layout.columns
    assert sorted(places(layout, rows, cols)) == [(r, c) for r in range(rows) for c in range(cols)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_owner_of_an_element_is_the_inverse(layout: RegisterLayout) -> None:
    for row in range(0, 128, 5):
        for col in range(2 * layout.columns):
            warp, lane, (block, group, half, inner) = layout.owner(row, col)
            assert 0 <= warp < 4 and 0 <= lane < 32 and half < 2 and inner < layout.span
            found = layout.row(warp, lane, block, half), layout.column(lane, group, inner)
            assert found == (row, col)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_vectors_are_slices_of_the_layout(layout: RegisterLayout) -> None:
    """Of one row each thread holds the columns, and of one column the rows, of the whole tile."""
    rows, cols = 64, 2 * layout.columns
    blocks, groups, halves, columns = layout.held(rows, cols)
    assert layout.held(1, cols) == (1, groups, 1, columns)
    assert layout.held(rows, 1) == (blocks, 1, halves, 1)
    assert layout.held(1, 1) == (1, 1, 1, 1)


def test_figures_of_ptx() -> None:
    """PTX ISA, wgmma register fragments: (row, column) of a0 .. of A and d0 .. of D, %laneid 5 of
    the second warp.
    """

    def held(layout: RegisterLayout, cols: int) -> list[tuple[int, int]]:
        _, groups, halves, columns = layout.held(64, cols)
        return [
            (layout.row(1, 5, 0, h), layout.column(5, j, e))
            for j in range(groups) for h in range(halves) for e in range(columns)
        ]  # fmt: skip

    assert held(ACCUMULATOR, 16) == [
        (17, 2), (17, 3), (25, 2), (25, 3), (17, 10), (17, 11), (25, 10), (25, 11),
    ]  # fmt: skip
    eight = held(operand_layout(DType.E4M3), 32)
    assert eight[:8] == [(17, c) for c in (4, 5, 6, 7)] + [(25, c) for c in (4, 5, 6, 7)]
    assert eight[8:12] == [(17, c) for c in (20, 21, 22, 23)]
    assert held(operand_layout(DType.TF32), 8) == [(17, 1), (25, 1), (17, 5), (25, 5)]


def test_a_product_in_16_bits_is_an_operand() -> None:
    assert operand_layout(DType.BF16) == operand_layout(DType.F16) == ACCUMULATOR
    with pytest.raises(UnsupportedError) as error:
        operand_layout(DType.F64)
    assert str(error.value) == (
        "A of f64 in registers is not supported; supported: elements of 8, 16 or 32 bits"
    )


@pytest.mark.parametrize("dtype", [DType.BF16, DType.E4M3, DType.S8, DType.TF32])
def test_a_of_one_instruction_takes_four_registers(dtype: DType) -> None:
    kind = FragmentType(dtype, 64, 32 // dtype.bytes, layout=operand_layout(dtype))
    assert kind.registers == 4 and kind.row_bytes == 16


def test_text_of_a_layout() -> None:
    text = """\
kernel k threads 128 cluster 1 grid 1 {
  shared S: e4m3[1][64x128] swizzle 128
  a: frag<e4m3, 64x64, span 4> = ldmatrix S[0, 0, 0]
  b: frag<e4m3, 64x32, span 4, async> = frag.columns a, 32
}
"""
    kernel = parse_kernel(text)
    assert print_kernel(kernel) == text
    assert kernel.body[0].out.type.layout == RegisterLayout(4)  # type: ignore[attr-defined]
