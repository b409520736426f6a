"""Schedules for an operand that is computed."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from lowering.ground.errors import UnsupportedError
from tests.computed import by_rows, cast, fusion
from wsched.choose.combine import COMBINE_COMPUTED
from wsched.choose.computed import computing_cycles
from wsched.choose.cost_model import cost
from wsched.choose.crowding import crowded_us, in_few_stages
from wsched.choose.heuristics import candidates, modelled
from wsched.choose.memory import least_bytes
from wsched.choose.problem import Problem, demands
from wsched.choose.shape import Shape
from wsched.choose.tiles import tiles_for
from wsched.fusion import DataType
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import CachePolicies, ClusterDims
from wsched.schedule.matmul.tiles import with_tile
from wsched.schedule.options import CachePolicy


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
    (16, "64x16x512", 1): 20.7, (16, "64x16x384", 1): 20.9, (16, "64x16x256", 1): 21.2,
    (16, "128x16x128", 2): 22.5, (32, "64x32x256", 1): 21.4, (32, "64x32x384", 1): 21.6,
    (32, "128x32x128", 2): 23.4, (64, "64x64x256", 1): 23.6, (64, "128x64x128", 2): 26.6,
    (64, "64x64x128", 1): 30.6, (128, "128x128x128", 2): 33.7, (128, "64x128x128", 1): 33.2,
    (128, "192x128x64", 3): 36.4, (256, "128x128x128", 1): 60.1,
}  # fmt: skip
"""Microseconds of int8 by 8192x8192 weights on an H200: rows, tile, parts of K."""


@pytest.mark.parametrize("m", sorted({m for m, *_ in MEASURED}))
def test_what_was_measured(m: int) -> None:
    """Times within 12 %, and what is predicted to be the fastest takes 3 % longer at most."""
    own = problem(cast("Int8"), m)
    predicted = dict[tuple[int, str, int], float]()
    for c in candidates(own):
        key = (m, str(c.params.output_tile), c.params.splitk_factor)
        if key in MEASURED and c.params.cluster_dims == ClusterDims():
            predicted[key] = c.cost.us
    measured = {key: us for key, us in MEASURED.items() if key[0] == m}
    assert predicted == pytest.approx(measured, rel=0.12)
    assert measured[min(predicted, key=lambda k: predicted[k])] <= 1.03 * min(measured.values())


def test_parts_cost_more_by_the_size_of_the_tile() -> None:
    """Than of a product of the same bytes that is not computed; nothing without parts."""
    for given in ("Int8", "Float"):
        own = problem(cast(given), 128)
        first = next(c.params for c in candidates(own) if c.params.splitk_factor == 2)
        for rows in (64, 128):
            tile = replace(first.tile_sizes.cta_tile, m=rows)
            sized = with_tile(first, tile, rows // 64, ping_pong=False)
            more = [
                cost(own, p).combine_us - cost(replace(own, computed=None), p).combine_us
                for p in (sized, replace(sized, splitk_factor=1))
            ]
            assert more == pytest.approx([COMBINE_COMPUTED * rows * tile.n / 8192, 0.0])


def test_slices_of_128_of_few_rows() -> None:
    """What a step waits for is waited for half as often; and nobody adds up parts of K: what these
    of 128 rows cost, 64x128x128 by one warpgroup does not (33.7 and 33.2 us of int8)."""
    for given, m in product(("Int8", "Float8_e4m3fn", "UInt4"), (16, 32, 64, 128)):
        best = candidates(problem(cast(given), m))[0].params
        assert best.tile_sizes.warp_tile.k == 128
        assert (best.along_k > 1, best.splitk_factor) == (m < 128, 1)


@pytest.mark.parametrize("group", [32, 64, 128])
def test_scales_of_groups(group: int) -> None:
    """A warpgroup's part of a step is a group at most, and whoever multiplies 16 bits has steps of
    one; four warpgroups that make all of A at once share slices, and nothing is faster by groups.
    """
    text = cast("UInt4").replace("linear(x, w)", f"linear(x, w, scale_b=s, group={group})")
    matrix = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)"
    text = text.replace("    w = ", f"    s = {matrix}\n    w = ")
    extents = {"M": 16, "N": 8192, "K": 8192, f"K_{group}": 8192 // group}
    own = Problem.of(fusion(text), extents, 132, ())
    best, plain = candidates(own)[0], candidates(problem(cast("UInt4")))[0]
    assert best.params.tile_sizes.warp_tile.k == group
    assert plain.params.prefetched_steps and not best.params.prefetched_steps
    assert group == 32 or best.params.along_k == 4
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


@pytest.mark.parametrize(
    ("text", "m", "n", "steps"),
    [(cast("Int8"), 16, 8192, 2), (cast("UInt4"), 32, 8192, 1), (cast("Float"), 16, 8192, 0),
     (cast("Int8"), 16, 2048, 0), (cast("Int8"), 128, 8192, 0)],
)  # fmt: skip
def test_hints_are_for_weights_that_stream(text: str, m: int, n: int, steps: int) -> None:
    """Where memory decides, and the L2 keeps less than half of what is read once."""
    found = candidates(problem(text, m, n))
    assert found[0].params.prefetched_steps == steps
    for p in (c.params for c in found):
        once = p.cache_policies.a is CachePolicy.EvictFirst
        asks = once and p.programmatic_dependent_launch and p.splitk_factor == 1
        assert p.prefetched_steps == steps * asks


def test_what_is_asked_for_too_early() -> None:
    """Rings that hold much at once are priced longer, by what memory takes for it, so four stages
    are chosen where eight fit; of operands as they are nobody has measured it.
    """
    own = problem(cast("UInt4"))
    (of_three,) = (c.params for c in candidates(own) if str(c.params.output_tile) == "64x16x384")
    options = of_three.circular_buffer_options
    assert options.smem_circular_buffer_stage == 4
    eight = replace(
        of_three, circular_buffer_options=replace(options, smem_circular_buffer_stage=8)
    )
    require_legal_for(demands(own), eight)
    turned = own.exchanged
    late = [crowded_us(turned, p, 128) for p in (of_three, eight)]
    assert late == pytest.approx([0, 0.46 * 128 * 96 * 1024 / 4.36e6], rel=1e-3)
    assert cost(own, eight).us > cost(own, of_three).us
    assert crowded_us(replace(turned, computed=None), eight, 128) == 0
    assert in_few_stages(replace(own, computed=None), eight) == (eight,)
    assert in_few_stages(own, eight) == (eight, of_three)


def test_three_stages_of_512_of_k() -> None:
    """Of 4 bits; of bytes nobody has measured them, of less K they are too few."""
    for given, fewest in (("UInt4", {512: 3, 384: 4, 256: 4}), ("Int8", {512: 4, 384: 4, 256: 4})):
        own = [c.params for c in candidates(problem(cast(given))) if c.params.splitk_factor == 1]
        for k, stages in fewest.items():
            (one,) = (p for p in own if str(p.output_tile) == f"64x16x{k}")
            assert one.circular_buffer_options.smem_circular_buffer_stage == stages


@pytest.mark.parametrize("m", [16, 128])
def test_what_computes_starts_early(m: int) -> None:
    """Also where the laws expect more of kernels that start late, as of int8 by 128 rows."""
    p = problem(cast("Int8"), m)
    assert modelled(p).programmatic_dependent_launch
    first = candidates(p)[0].params
    assert first.programmatic_dependent_launch is (m == 16)


def test_widened_weights_leave_the_l2_from_half_of_it_on() -> None:
    """33.5 MB of 60; operands as they are from all of it on."""
    first, normal = CachePolicy.EvictFirst, CachePolicy.EvictNormal
    for n, wanted in ((8192, first), (7168, normal)):
        policies = candidates(problem(cast("UInt4"), n=n))[0].params.cache_policies
        assert (policies.a, policies.b) == (wanted, normal)
    wide = replace(problem(cast("Int8"), n=2048), computed=None)
    assert candidates(wide)[0].params.cache_policies == CachePolicies()
