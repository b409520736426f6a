"""What an epilogue takes: chunks, buffers, and lines that the copy engine stores (design/0014)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.choose.test_unaligned import planned
from wsched.choose.cost_model import START, STORE_LINE, cost
from wsched.choose.epilogue import (
    CHUNK,
    ELEMENT,
    KEPT,
    SINGLE,
    TILE_END,
    epilogue_cycles,
    store_lines,
)
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.schedule.matmul.params import ClusterDims, GemmTile, MatmulParams
from wsched.schedule.matmul.tiles import fit_stages, with_tile

BF16 = DataType.BFloat16
SQUARE = Problem(4096, 4096, 4096, BF16, (BF16,), 132)


def tiled(
    m: int, n: int, warpgroups: int = 2, ping_pong: bool = True, **changes: object
) -> MatmulParams:
    made = with_tile(replace(MatmulParams(), **changes), GemmTile(m, n, 64), warpgroups, ping_pong)
    found = fit_stages(made, BF16, (BF16,), ())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("columns", "chunks", "single"), [(128, 2, 0), (192, 3, 1), (160, 5, 1), (176, 11, 1)]
)
def test_a_chunk_is_what_divides_the_tile_and_an_odd_number_has_one_buffer(
    columns: int, chunks: int, single: int
) -> None:
    expected = TILE_END + ELEMENT * 128 * columns + chunks * (CHUNK + single * SINGLE)
    assert epilogue_cycles(SQUARE, tiled(128, columns)) == pytest.approx(expected)


def test_one_chunk_waits_for_no_other() -> None:
    found = replace(tiled(64, 64, 1, False), epilogue_stages=1)
    assert epilogue_cycles(SQUARE, found) == pytest.approx(TILE_END + ELEMENT * 64 * 64 + CHUNK)


def test_what_is_stored_later_is_converted_alone() -> None:
    """Of sums over groups, where the next tile has a step for each chunk; of two steps for four
    chunks half is stored at once.
    """
    now, sums = tiled(128, 256, 2, False), replace(SQUARE, grouped="k")
    later = replace(now, deferred_stores=True)
    full, kept = epilogue_cycles(sums, now), TILE_END + KEPT * 64 * 256
    assert epilogue_cycles(sums, later) == pytest.approx(kept)
    assert epilogue_cycles(replace(sums, k=4 * 64), later) == pytest.approx(kept)
    assert epilogue_cycles(replace(sums, k=2 * 64), later) == pytest.approx((full + kept) / 2)
    assert epilogue_cycles(SQUARE, later) == full
    assert epilogue_cycles(SQUARE, replace(later, epilogue_stages=1)) == full


def test_warpgroups_that_share_slices_have_one_epilogue() -> None:
    """It is the first one's, which has the sum; two with rows of their own have a half each."""
    shared = with_tile(MatmulParams(), GemmTile(64, 64, 256), 4, False, along_k=4)
    assert epilogue_cycles(SQUARE, shared) == epilogue_cycles(SQUARE, tiled(64, 64, 1, False))
    two, one = tiled(128, 64, 2, False), tiled(128, 64, 1, False)
    fewer = epilogue_cycles(SQUARE, one) - epilogue_cycles(SQUARE, two)
    assert fewer == pytest.approx(ELEMENT * 64 * 64)


@pytest.mark.parametrize(
    ("params", "lines"),
    [
        (tiled(128, 192), 128 * 3),
        (tiled(128, 176), 128 * 11),
        (tiled(256, 128, 2, False), 256 * 2),
        (tiled(128, 152, 2, False, exchange_operands=True), 152 * 2),
        (replace(tiled(128, 192), use_smem_epilogue=False), 0),
    ],
    ids=["wide", "narrow", "cooperative", "exchanged", "by threads"],
)
def test_a_narrow_chunk_is_a_line_as_well(params: MatmulParams, lines: int) -> None:
    assert store_lines(SQUARE, params) == lines
    assert store_lines(replace(SQUARE, results=(BF16, BF16)), params) == 2 * lines


def test_stores_take_the_turn_of_loads_where_k_is_short() -> None:
    """At 7416x8784x144 51.8 us were measured of 128x192, 67 of 128x160 and 73.6 of 128x176."""
    problem = planned("7416x8784x144 nn")
    us = [cost(problem, tiled(128, n, cluster_dims=ClusterDims(2, 1))).us for n in (192, 160, 176)]
    assert us[0] == pytest.approx(51.8, rel=0.15) and us[0] < us[1] < us[2]
    assert us[2] > 1.15 * us[0]


def test_the_copy_engine_is_never_busier_than_the_kernel_is_long() -> None:
    problem, params = planned("7416x8784x144 nn"), tiled(128, 176)
    found = cost(problem, params)
    lines = found.rounds * store_lines(problem, params)
    assert found.us > lines * STORE_LINE / 1904


def test_a_kernel_of_one_step_waits_for_the_first_stage() -> None:
    short = replace(SQUARE, m=128, n=128, k=64)
    aligned = cost(short, tiled(128, 128))
    unaligned = cost(replace(short, align_a=16, align_b=16), tiled(128, 128))
    assert aligned.launch_us > 1.36 + START / 1904
    whole = [c.launch_us + c.main_us for c in (aligned, unaligned)]
    assert whole[1] - whole[0] > 0.2
