"""Tile-level products in tensor memory as instructions."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.text import parse_kernel, print_body
from passes.options import LoweringOptions
from passes.synchronize_tcgen05 import synchronize_tcgen05


def lowered(body: str, acc: str = "128x64") -> str:
    kernel = parse_kernel(f"""\
kernel k threads 128 cluster 1 target sm_100a grid 1 {{
  param M: i32
  shared A: bf16[1][256x64] swizzle 128
  shared B: bf16[1][64x256] swizzle 128
  tensor acc: f32[2][{acc}]
  {body}
}}
""")
    return print_body(synchronize_tcgen05(kernel, LoweringOptions()).body)


def test_products_of_a_piece_of_k_stand_together() -> None:
    body = "elect { mma.tensor acc[0, 0, 0], A[0, 0, 0], B[0, 0, 0], 256, 64, 32, 0 < M }"
    assert (
        lowered(body, "256x64")
        == """\
elect {
  tcgen05.mma acc[0, 0, 0], A[0, 0, 0], B[0, 0, 0], 64, accumulate=0 < M
  tcgen05.mma acc[0, 128, 0], A[0, 128, 0], B[0, 0, 0], 64, accumulate=0 < M
  tcgen05.mma acc[0, 0, 0], A[0, 0, 16], B[0, 0, 16], 64
  tcgen05.mma acc[0, 128, 0], A[0, 128, 16], B[0, 0, 16], 64
}
"""
    )


def test_operands_by_columns() -> None:
    found = lowered(
        "mma.tensor acc[1, 0, 0], A[0, 0, 0], B[0, 0, 64], 128, 64, 32, true, trans_b=true"
    )
    assert "tcgen05.mma acc[1, 0, 0], A[0, 0, 16], B[0, 16, 64], 64, trans_b=true" in found


def test_loads_beside_each_other_are_in_flight_together() -> None:
    kind = "frag<f32, 128x32, span 2, below 2"
    body = f"x: {kind}> = ld.tensor acc[0, 0, 0]\n  y: {kind}> = ld.tensor acc[0, 0, 32]"
    assert lowered(body).splitlines() == [
        f"x_flying: {kind}, async> = tcgen05.ld acc[0, 0, 0]",
        f"y_flying: {kind}, async> = tcgen05.ld acc[0, 0, 32]",
        f"x: {kind}> = tcgen05.wait.ld x_flying",
        f"y: {kind}> = tcgen05.wait.ld y_flying",
    ]


def test_a_sum_of_no_steps_is_zeros() -> None:
    """Loads of the same sum are in one loop; those that have products for sure are in none."""
    kind = "frag<f32, 128x32, span 2, below 2"
    body = "\n  ".join(
        f"{x}: {kind}> = ld.tensor acc[0, 0, {at}], steps={steps}"
        for x, at, steps in (("x", 0, "M"), ("y", 32, "M"), ("z", 0, "4"))
    )
    carried = ", ".join(f"{x}_before: {kind}> = {x}_zero -> {x}" for x in "xy")
    assert lowered(body).splitlines() == [
        f"x_zero: {kind}> = frag.fill 0.0",
        f"y_zero: {kind}> = frag.fill 0.0",
        f"for summed in 0 .. min(M, 1) carry ({carried}) {{",
        f"  x_flying: {kind}, async> = tcgen05.ld acc[0, 0, 0]",
        f"  y_flying: {kind}, async> = tcgen05.ld acc[0, 0, 32]",
        f"  x_read: {kind}> = tcgen05.wait.ld x_flying",
        f"  y_read: {kind}> = tcgen05.wait.ld y_flying",
        "  yield x_read, y_read",
        "}",
        f"z_flying: {kind}, async> = tcgen05.ld acc[0, 0, 0]",
        f"z: {kind}> = tcgen05.wait.ld z_flying",
    ]


@pytest.mark.parametrize("sizes", ["64, 64, 32", "128, 24, 32", "128, 64, 24"])
def test_what_no_instruction_multiplies(sizes: str) -> None:
    with pytest.raises(UnsupportedError, match="M a multiple of 128, N a multiple of 16"):
        lowered(f"mma.tensor acc[0, 0, 0], A[0, 0, 0], B[0, 0, 0], {sizes}, true")
