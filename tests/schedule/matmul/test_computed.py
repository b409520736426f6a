"""Which schedules compute an operand, and what they take for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.computed import by_rows, cast, fusion, tile
from wsched.front.legal_tiles import legal_tiles
from wsched.fusion import DataType
from wsched.schedule.matmul.computed import Computed, element_bytes
from wsched.schedule.matmul.computed_limits import computed_reasons, computed_registers
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import (
    BufferingLoopLevel,
    CircularBufferingStrategy,
    ThreadLoads,
    TilingStrategy,
)
from wsched.schedule.matmul.shared import taken

INT8 = fusion(cast("Int8"))


def test_what_a_fusion_demands() -> None:
    demands = Demands.of(INT8)
    assert demands.operand is DataType.BFloat16
    assert demands.computed == Computed("b", DataType.Int8, 2.15)
    assert demands.element_bytes == (2, 1) and demands.exchanged.element_bytes == (1, 2)
    more = Demands.of(fusion(by_rows("Int8"))).computed
    assert more is not None and more.work == 4.15
    assert element_bytes(DataType.Half, None) == (2, 2)


def test_a_stage_has_the_bytes_of_memory() -> None:
    params = tile(INT8, 128, 64).params
    stage, _ = taken(Demands.of(INT8).exchanged, params, ())
    assert stage == 128 * 64 * 1 + 64 * 64 * 2


def test_registers() -> None:
    """A of 64 x 64 in 16 bits, the same in 8, and 64 x 16 in fp32."""
    demands, params = Demands.of(INT8), tile(INT8, 128, 64).params
    assert computed_registers(demands.exchanged, params) == 16 + 8 + 8
    wide = Demands.of(fusion(cast("Float")))
    assert computed_registers(wide.exchanged, params) == 16 + 8


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"exchange_operands": False},
            "exchange_operands=False: what is computed would be B, and wgmma takes A alone from "
            "registers",
        ),
        (
            {"buffering_loop_level": BufferingLoopLevel.WarpTiles},
            "WarpTiles: a warpgroup that computes an operand has no turns to wait for",
        ),
        (
            {"tiling_strategy": TilingStrategy.DistributeStagesAcrossSMs},
            "DistributeStagesAcrossSMs of an operand that has a ring of its own",
        ),
        (
            {"thread_loads": ThreadLoads(b=8)},
            "thread_loads(b 8 bytes, 1 warpgroup) of operands that are computed",
        ),
    ],
)
def test_refused(change: dict[str, object], reason: str) -> None:
    params = tile(INT8, 128, 64).params
    changed = replace(params, **change)  # type: ignore[arg-type]
    demands = Demands.of(INT8)
    asked = demands.exchanged if changed.exchange_operands else demands
    assert computed_reasons(asked, changed) == [reason]


def test_more_pieces_than_a_wait_can_leave() -> None:
    """A warpgroup alone has half as many, and registers for no more; without a role of its own
    nobody knows that it is alone.
    """
    pieces = "the warp tile's k 512 is computed in 16 pieces, a wait leaves at most 7 groups"
    by_itself = CircularBufferingStrategy.Pipelined
    assert tile(INT8, 128, 16, 512).reason.startswith(pieces)
    assert pieces in tile(INT8, 64, 16, 512, circular_buffering_strategy=by_itself).reason
    assert tile(INT8, 64, 16, 512).reason.startswith(
        "the warp tile's k 512 is computed for 32 instructions, registers hold A of 16"
    )
    assert tile(INT8, 64, 16, 1024).reason.startswith("the warp tile's k 1024 is computed in 16")
    assert tile(INT8, 64, 16, 256).legal


@pytest.mark.slow
def test_legal_tiles_have_the_weights_as_rows() -> None:
    found = [c for c in legal_tiles(cast("Int8")) if c.legal]
    assert found and all(c.params.exchange_operands and not c.ping_pong for c in found)
    assert max(c.tile.m * c.tile.n for c in found) == 256 * 160
