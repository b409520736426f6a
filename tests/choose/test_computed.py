"""Schedules for an operand that is computed."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from lowering.ground.errors import UnsupportedError
from tests.computed import by_rows, cast, fusion
from wsched.choose.computed import computing_cycles
from wsched.choose.heuristics import candidates
from wsched.choose.memory import least_bytes
from wsched.choose.problem import Problem, demands
from wsched.choose.shape import Shape
from wsched.choose.tiles import tiles_for
from wsched.fusion import DataType
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import ClusterDims


def problem(text: str, m: int = 16, n: int = 8192, k: int = 8192) -> Problem:
    return Problem.of(fusion(text), {"M": m, "N": n, "K": k}, 132, ())


def test_bytes_are_those_of_memory() -> None:
    p = problem(cast("Int8"))
    assert p.operand_bytes == (16 * 8192 * 2, 8192 * 8192)
    assert p.exchanged.operand_bytes == p.operand_bytes[::-1]
    assert least_bytes(p) == sum(p.operand_bytes) + 16 * 8192 * 2


def test_weights_are_rows_of_tiles() -> None:
    """And warpgroups share a tile; of results of 32 bits, too."""
    for given in ("Int8", "Float"):
        found = candidates(problem(cast(given)))
        assert all(c.params.exchange_operands for c in found)
        assert not any(c.params.ping_pong or c.params.stream_k for c in found)
    assert candidates(replace(problem(cast("Int8")), results=(DataType.Float,)))


def test_half_the_bytes_of_few_rows_take_less_than_widening_first() -> None:
    for m, least in ((16, 1.4), (64, 1.25), (256, 0.95)):
        own = problem(cast("Int8"), m)
        wide = candidates(replace(own, computed=None))[0]
        assert wide.cost.by_laws > least * candidates(own)[0].cost.us


def test_more_work_takes_longer() -> None:
    bare, scaled = problem(cast("Int8"), 64), problem(by_rows("Int8"), 64)
    shape = Shape.of(candidates(bare)[0].params)
    cycles = [computing_cycles(p.exchanged, shape) for p in (bare, scaled)]
    assert 0 < cycles[0] < cycles[1]
    assert computing_cycles(replace(bare, computed=None), shape) == 0


MEASURED = {
    (16, "64x16x512", 1): 20.6, (16, "64x16x384", 1): 20.8, (16, "64x16x256", 1): 21.2,
    (16, "128x16x128", 2): 22.3, (32, "64x32x256", 1): 21.5, (32, "128x32x128", 2): 23.5,
    (64, "64x64x256", 1): 24.6, (64, "128x64x128", 2): 26.7, (128, "128x128x128", 2): 35.5,
    (256, "128x128x128", 1): 60.1,
}  # fmt: skip
"""Microseconds of int8 by 8192x8192 weights on an H200: rows, tile, parts of K."""


@pytest.mark.parametrize("m", sorted({m for m, *_ in MEASURED}))
def test_what_was_measured(m: int) -> None:
    """Times within 12 %, and the fastest of the measured ones is predicted to be that."""
    own = problem(cast("Int8"), m)
    predicted = dict[tuple[int, str, int], float]()
    for c in candidates(own):
        key = (m, str(c.params.output_tile), c.params.splitk_factor)
        if key in MEASURED and c.params.cluster_dims == ClusterDims():
            predicted[key] = c.cost.us
    measured = {key: us for key, us in MEASURED.items() if key[0] == m}
    assert predicted == pytest.approx(measured, rel=0.12)
    assert min(predicted, key=lambda k: predicted[k]) == min(measured, key=lambda k: measured[k])


def test_slices_of_128_of_few_rows() -> None:
    """What a step waits for is waited for half as often; and nobody adds up parts of fewer rows."""
    for given, m in product(("Int8", "Float8_e4m3fn", "UInt4"), (16, 32, 64, 128)):
        best = candidates(problem(cast(given), m))[0].params
        assert best.tile_sizes.warp_tile.k == 128
        assert (best.along_k > 1, best.splitk_factor > 1) == (m < 128, m == 128)


@pytest.mark.parametrize("group", [32, 64, 128])
def test_scales_of_groups(group: int) -> None:
    """A warpgroup's part of a step is a group at most, and whoever multiplies 16 bits has steps of
    one; slices are shared by as many as without groups, and nothing is faster by them.
    """
    text = cast("UInt4").replace("linear(x, w)", f"linear(x, w, scale_b=s, group={group})")
    matrix = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)"
    text = text.replace("    w = ", f"    s = {matrix}\n    w = ")
    extents = {"M": 16, "N": 8192, "K": 8192, f"K_{group}": 8192 // group}
    own = Problem.of(fusion(text), extents, 132, ())
    best, plain = candidates(own)[0], candidates(problem(cast("UInt4")))[0]
    assert (best.params.along_k, best.params.tile_sizes.warp_tile.k) == (4, group)
    assert best.cost.us > plain.cost.us
    wide = candidates(replace(own, computed=None))
    assert wide and all(c.params.tile_sizes.warp_tile.k <= group for c in wide)
    for tiles in map(tiles_for, (own, replace(own, computed=None))):
        assert len(tiles) == len(set(tiles))


def test_no_tile() -> None:
    wide = replace(problem(cast("Float")), n_major=True)
    with pytest.raises(UnsupportedError) as error:
        candidates(wide)
    assert error.value.what == "an operand that is computed from Float, in no legal tile"


@pytest.mark.parametrize("n", [512, 2048, 4096])
def test_all_that_is_tried_is_legal(n: int) -> None:
    """Slices that warpgroups share are no parts of K of CTAs as well; found where parts fit."""
    p = problem(cast("Int8"), n=n)
    for c in candidates(p):
        require_legal_for(demands(p), c.params)
        assert c.params.along_k == 1 or c.params.splitk_factor == 1
        assert not c.params.prefetched_steps  # what streams goes through registers
