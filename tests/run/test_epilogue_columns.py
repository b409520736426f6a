"""Chunks of the epilogue that are no power of two wide: the same bits from every kind of kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowering.ground.errors import ScheduleError
from lowering.target import ptx
from tests.on_machine import Problem, exact, kernel, operands, run
from tests.proofs import proved
from tests.schedules import cooperative, definition, ping_pong
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import ClusterDims, MatmulParams, TilingStrategy

ODD = Problem(200, 168, 136, 4)


def in_chunks(columns: int, base: MatmulParams, stages: int) -> MatmulParams:
    return replace(base, epilogue_columns=columns, epilogue_stages=stages)


def tile_per_cta(base: MatmulParams) -> MatmulParams:
    one = TilingStrategy.OneTilePerCTA
    return replace(base, tiling_strategy=one, promote_prologue_smem_reuse=True)


WAYS = {
    "cooperative, two chunks": in_chunks(40, cooperative(128, 80, stages=3), 2),
    "cooperative, one chunk": in_chunks(88, cooperative(128, 88, stages=3), 1),
    "ping-pong": in_chunks(56, ping_pong(64, 112, stages=3), 2),
    "cluster": in_chunks(72, replace(cooperative(128, 144, stages=3),
                                     cluster_dims=ClusterDims(2, 1)), 2),
    "through the operands' stages": tile_per_cta(in_chunks(72, cooperative(128, 72, stages=3), 1)),
    "exchanged": in_chunks(88, replace(cooperative(128, 88, stages=3), exchange_operands=True), 1),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", WAYS)
def test_right_proved_and_without_spills(name: str) -> None:
    made = kernel(WAYS[name])
    x, w = operands(ODD, "bf16", 0, integer=True)
    assert np.array_equal(run(made, ODD, x, w, "bf16", races=True).astype("f4"), exact(x, w))
    proved(made.kernel, made.plan)
    assert made.resources.clean


def test_a_row_of_a_chunk_is_a_line_of_its_own() -> None:
    """80 columns in two chunks: each is one box of 80 bytes, where five chunks of 32 bytes were."""
    wide, narrow = WAYS["cooperative, two chunks"], cooperative(128, 80, stages=3)
    boxes = [
        kernel(p).kernel.tensor_maps[-1].box for p in (wide, replace(narrow, epilogue_stages=1))
    ]
    assert boxes == [(64, 40), (64, 16)]


@pytest.mark.parametrize("columns", [24, 40, 56, 72, 88, 104, 120, 136, 152, 168, 184, 200])
def test_no_bank_holds_two_words_of_a_matrix(columns: int) -> None:
    """Eight rows of an odd number of 16 bytes begin at as many places of 128 bytes."""
    rows = {row * columns * 2 % ptx.WIDEST_SWIZZLE for row in range(8)}
    assert rows == set(range(0, ptx.WIDEST_SWIZZLE, 16))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (-8, "epilogue_columns=-8: a chunk has at least 8 columns, and 0 means the most that are a "
             "power of two"),
        (20, "epilogue_columns=20: a chunk has whole 8x8 matrices, a multiple of 8 columns"),
        (48, "epilogue_columns=48: chunks of so many columns do not make up the warp tile's 80"),
    ],
)  # fmt: skip
def test_what_is_refused(columns: int, why: str) -> None:
    params = in_chunks(columns, cooperative(128, 80, stages=3), 1)
    with pytest.raises(ScheduleError) as error:
        compile_fusion(import_fusion(definition()), params)
    assert error.value.why == why
