"""A that each step makes in registers: rolling groups of ``synchronize_wgmma``."""

from __future__ import annotations

import pytest

from passes.synchronize_wgmma import synchronize_wgmma
from tests.passes.test_synchronize_wgmma import HEAD, IN_REGISTERS, in_registers
from tests.passes.texts import lowered


def test_a_that_each_step_makes_in_registers() -> None:
    """A group for each instruction's K; its registers are written behind the wait for the last one
    that reads them, and the step before is released behind the last of these waits.
    """
    lines = [x.strip() for x in lowered(synchronize_wgmma, in_registers(2)).splitlines()]
    first = lines.index("wait_full ring, k") + 1
    assert lines[first : first + 16] == [
        "acc1_before0: frag<f32, 64x256, async> = wgmma.wait acc, 1",
        "left_k0: frag<bf16, 64x16> = ldmatrix A_s[k % 4, 0, 0]",
        "wgmma.fence",
        "acc1_k0: frag<f32, 64x256, async> = wgmma acc1_before0, left_k0, B_s[k % 4, 0, 0], "
        "accumulate=0 < k",
        "wgmma.commit",
        "acc1_before16: frag<f32, 64x256, async> = wgmma.wait acc1_k0, 1",
        "left_k16: frag<bf16, 64x16> = ldmatrix A_s[k % 4, 0, 16]",
        "wgmma.fence",
        "acc1: frag<f32, 64x256, async> = wgmma acc1_before16, left_k16, B_s[k % 4, 0, 16]",
        "wgmma.commit",
        "if 0 < k {",
        "release ring, k - 1",
        "}",
        "yield acc1",
        "}",
        "sum: frag<f32, 64x256> = wgmma.wait sum_async, 0",
    ]


COMPUTED = """
      raw: frag<bf16, 64x32> = ldmatrix A_s[k % 4, 0, 0]
      wide: frag<f32, 64x32> = frag.cast raw
      shifted: frag<f32, 64x32> = frag.pointwise sub, wide, column
      scaled: frag<f32, 64x32> = frag.pointwise mul, shifted, whole
      left: frag<bf16, 64x32> = frag.cast scaled
"""
GIVEN = """
    column: frag<f32, 64x1> = frag.fill 0.5
    whole: frag<f32, 64x32> = frag.fill 2.0
    zero: frag<f32"""


def computed(*edits: tuple[str, str]) -> list[str]:
    text = in_registers(1).replace(IN_REGISTERS.splitlines()[1], COMPUTED)
    text = text.replace("\n    zero: frag<f32", GIVEN)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return [line.strip() for line in lowered(synchronize_wgmma, text).splitlines()]


def test_a_that_is_computed_is_computed_piece_by_piece() -> None:
    """A column is for all pieces; what stands in front of the loop is taken apart. Only what the
    wgmma reads waits, the rest runs beside the groups in flight.
    """
    lines = computed()
    first = lines.index("raw_k16: frag<bf16, 64x16> = ldmatrix A_s[k % 4, 0, 16]")
    assert lines[first : first + 8] == [
        "raw_k16: frag<bf16, 64x16> = ldmatrix A_s[k % 4, 0, 16]",
        "wide_k16: frag<f32, 64x16> = frag.cast raw_k16",
        "shifted_k16: frag<f32, 64x16> = frag.pointwise sub, wide_k16, column",
        "whole_k16: frag<f32, 64x16> = frag.columns whole, 16",
        "scaled_k16: frag<f32, 64x16> = frag.pointwise mul, shifted_k16, whole_k16",
        "acc1_before16: frag<f32, 64x256, async> = wgmma.wait acc1_k0, 1",
        "left_k16: frag<bf16, 64x16> = frag.cast scaled_k16",
        "wgmma.fence",
    ]


@pytest.mark.parametrize(
    ("warps", "k", "pieces"),
    [(4, 128, 2), (4, 64, 2), (4, 32, 2), (8, 128, 4), (8, 64, 2), (8, 32, 2), (4, 96, 6)],
)
def test_pieces_are_larger_where_one_warpgroup_multiplies(warps: int, k: int, pieces: int) -> None:
    """Two at least; of four instructions by one, of two by several, where that comes out even."""
    text = in_registers(1).replace("compute warps 0 .. 4 {", f"compute warps 0 .. {warps} as wg {{")
    text = text.replace("x32", f"x{k}").replace("32, 0 < k", f"{k}, 0 < k")
    after = lowered(synchronize_wgmma, text.replace("swizzle 64", "swizzle 0"))
    assert after.count("wgmma.commit") == pieces
    assert after.count(f"wgmma.wait acc, {pieces - 1}") == 1


OTHER_USES = {
    "a part of it is stored": ("left: frag", "stmatrix C_s[0, 0, 0], raw\n left: frag"),
    "it is stored": ("acc1: frag", "stmatrix C_s[0, 0, 0], left\n acc1: frag"),
    "it is no result of its own": ("left: frag<bf16, 64x32> = frag.cast scaled",
        "more: frag<bf16, 64x64> = frag.fill 1.0\n left: frag<bf16, 64x32> = frag.columns more, 0"),
}  # fmt: skip


@pytest.mark.parametrize("edit", OTHER_USES.values(), ids=list(OTHER_USES))
def test_a_that_is_not_made_for_the_product_alone(edit: tuple[str, str]) -> None:
    """Nothing stays in flight then: the next step writes what the groups read."""
    shared = ("param n: i32\n", "param n: i32\nshared C_s: bf16[1][64x64] swizzle 128\n")
    lines = computed(edit, shared)
    assert "acc1: frag<f32, 64x256> = wgmma.wait acc1_k16, 0" in lines
    assert "release ring, k" in lines


def test_a_ring_that_only_threads_read_is_released_behind_the_groups() -> None:
    """The pieces are read in front of them; the other ring waits for the next step."""
    head = HEAD.format(in_flight=1).replace("ring(A_s, B_s)", "ring(B_s)")
    head += "ring raw(A_s) stages 4\n"
    text = head + in_registers(1).removeprefix(HEAD.format(in_flight=1))
    text = text.replace("      acc1: frag", "      release raw, k\n      acc1: frag")
    lines = [line.strip() for line in lowered(synchronize_wgmma, text).splitlines()]
    last = max(i for i, line in enumerate(lines) if line == "wgmma.commit")
    assert lines[last + 1 : last + 4] == ["release raw, k", "if 0 < k {", "release ring, k - 1"]
