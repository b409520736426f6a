"""What is planned for operands of 8 bits: the same bytes, half the time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.choose.cost_model import cost
from wsched.choose.heuristics import candidates, choose_params, modelled
from wsched.choose.problem import Problem
from wsched.choose.tiles import tiles_for
from wsched.fusion import DataType

WIDE = Problem(8192, 8192, 8192, DataType.BFloat16, (DataType.BFloat16,), 132)
NARROW = replace(WIDE, operand=DataType.Float8_e4m3fn)
PROMOTED = replace(NARROW, promotion=128)


def test_a_step_has_as_many_bytes() -> None:
    assert {t.k for t in tiles_for(WIDE)} == {64, 128}
    assert {t.k for t in tiles_for(NARROW)} == {128, 256}
    assert all(c.params.output_tile.k in (128, 256) for c in candidates(NARROW))


@pytest.mark.usefixtures("by_laws")
def test_the_tensor_cores_are_twice_as_fast() -> None:
    wide, narrow, promoted = (cost(p, choose_params(p)).us for p in (WIDE, NARROW, PROMOTED))
    assert 1.8 < wide / narrow < 2.2
    assert narrow < promoted < wide


def test_additions_hide_under_the_other_warpgroup() -> None:
    """Where one has the tensor cores for itself they wait for its additions."""
    assert not choose_params(PROMOTED).ping_pong
    found = {c.params.ping_pong: c for c in reversed(candidates(PROMOTED))}
    assert found[False].cost.us < found[True].cost.us


def test_accumulators_leave_room_for_a_second_one() -> None:
    warps = [c.params.tile_sizes.warp_tile for c in candidates(PROMOTED)]
    assert max(w.n for w in warps if w.m == 64) < 224
    assert max(w.m * w.n for w in warps) == 128 * 136  # summed 64 rows at a time
    assert max(w.m * w.n for w in (c.params.tile_sizes.warp_tile for c in candidates(NARROW))) > (
        64 * 224
    )


@pytest.mark.parametrize("problem", [NARROW, PROMOTED, replace(PROMOTED, m=48, n=4096)])
def test_bounds_leave_the_best_candidate(problem: Problem) -> None:
    assert modelled(problem) == candidates(problem)[0].params


@pytest.mark.parametrize("groups", [{}, {"grouped": "m", "batch": 4}], ids=["one", "groups"])
def test_operands_that_no_wgmma_reads_are_refused(groups: dict[str, Any]) -> None:
    """wgmma reads 8 bits with K in consecutive places."""
    with pytest.raises(UnsupportedError) as error:
        modelled(replace(NARROW, m_major=True, **groups))
    assert error.value.what == "a product of Float8_e4m3fn as these lie, in no legal tile"
    assert error.value.supported.startswith("K-major operands (of 16 bits any)")


def test_more_products_than_a_tile_has_room_for_are_refused() -> None:
    with pytest.raises(UnsupportedError) as error:
        modelled(replace(WIDE, b_count=16))
    assert error.value.what == "16 products of BFloat16 as these lie, in no legal tile"
    assert error.value.supported.endswith("as many products and results as one has room for")
