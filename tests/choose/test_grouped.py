"""Problems of groups: what they share out, what the model counts, which tiles are candidates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.grouped import FORMS, grouped
from tests.schedules import cooperative, dynamic, exchanged, ping_pong
from wsched.choose.cost_model import FLOP_ENERGY, MEMORY_SHARP, cost, memory_bytes, terms_of
from wsched.choose.gpus import H200_SMS
from wsched.choose.groups import SHARP, tiles_of_group
from wsched.choose.heuristics import Candidate, candidates
from wsched.choose.memory import result_bytes
from wsched.choose.problem import Problem
from wsched.front.known import import_fusion
from wsched.schedule.matmul.params import (
    L2Promotions,
    TensorMapL2Promotion,
    TileRasterizationOrder,
)

EXTENTS = {"rows": "MNK", "columns": "NMK", "sums": "KMN"}
"""What is shared out, and the others."""


def problem(form: str, groups: int = 8, whole: int = 4096, n: int = 2048, k: int = 1024) -> Problem:
    fusion = import_fusion(grouped(ranks=FORMS[form]))
    extents = {"B": groups, **dict(zip(EXTENTS[form], (whole, n, k), strict=True))}
    made = Problem.of(fusion, extents, H200_SMS, ())
    assert made.extents(fusion) == extents
    return made


@pytest.mark.parametrize(
    ("form", "letter", "sizes"),
    [("rows", "m", (512, 2048, 1024)), ("columns", "n", (2048, 512, 1024)),
     ("sums", "k", (2048, 1024, 512))],
)  # fmt: skip
def test_the_mean_of_what_is_shared_out(
    form: str, letter: str, sizes: tuple[int, int, int]
) -> None:
    made = problem(form)
    assert (made.grouped, (made.m, made.n, made.k), made.batch) == (letter, sizes, 8)
    assert made.exchanged.grouped == {"m": "n", "n": "m", "k": "k"}[letter]
    assert made.exchanged.exchanged == made


def test_columns_are_stored_one_by_one() -> None:
    made = problem("columns")
    assert (made.smem_epilogue, made.pairs, made.inputs) == (False, False, None)


def test_tiles() -> None:
    """Half a tile more for each group and strip; not of sums."""
    shared = dynamic(cooperative(128, 256, 64, stages=4))
    own, turned = dynamic(ping_pong(128, 128, 64, stages=4)), exchanged(shared)
    rows, columns, sums = map(problem, FORMS)
    assert cost(rows, shared).tiles == 8 * (4 + 0.5) * 8
    assert cost(rows, own).tiles == 8 * (4 + 0.5) * 16
    assert cost(columns, shared).tiles == 8 * (2 + 0.5) * 16
    assert cost(columns, turned).tiles == 8 * (4 + 0.5) * 8
    assert cost(sums, shared).tiles == 8 * 16 * 4


@pytest.mark.parametrize("mean", [3, 32, 96, 128, 300, 512])
@pytest.mark.parametrize("length", [16, 64, 128, 192, 256])
def test_tiles_of_a_group(mean: int, length: int) -> None:
    """Those of all sizes from 1 to twice the mean."""
    sizes = range(1, 2 * mean + 1)
    tiles = sum(-(-size // length) for size in sizes) / len(sizes)
    assert tiles_of_group(mean, length) == pytest.approx(tiles)


def test_groups_of_few_rows_have_no_more_tiles_than_rows() -> None:
    assert (tiles_of_group(0, 64), tiles_of_group(1, 64)) == (0.0, 1.0)
    few, none = (problem("rows", 64, whole) for whole in (64, 0))
    tile = dynamic(ping_pong(128, 128, 64, stages=4))
    assert cost(few, tile).tiles == 64 * 16 and cost(none, tile).tiles == 0


@pytest.mark.parametrize(("m", "share"), [(128, 1 / 8), (256, 1 / 4)])
def test_rows_behind_a_group_take_energy(m: int, share: float) -> None:
    """They are the next group's, not zeros: so many more of each group's 512."""
    made, tile = problem("rows"), dynamic(cooperative(m, 256, 64, stages=3))
    more = terms_of(made, tile).energy - terms_of(replace(made, grouped=""), tile).energy
    assert more == pytest.approx(FLOP_ENERGY * made.batch * made.m * made.n * made.k * share)


def test_a_strip_is_read_once_by_all_its_tiles() -> None:
    """Unlike the same tiles of a batch; memory and SMs wait for each other more."""
    made = problem("rows", 64, 8192, 2048, 7168)
    few, many = (dynamic(cooperative(m, 256, 64, stages=4)) for m in (128, 64))
    batch = replace(made, grouped="")
    assert terms_of(made, many).stream < 1.01 * terms_of(made, few).stream
    assert terms_of(batch, many).stream > 1.1 * terms_of(batch, few).stream
    assert (terms_of(made, few).sharp, terms_of(problem("sums"), few).sharp) == (
        SHARP, MEMORY_SHARP,
    )  # fmt: skip


def test_few_rows_of_each_group_stream_weights_by() -> None:
    """Of 128 rows for each group memory decides, of 512 it does not."""
    few, many = (problem("rows", *x) for x in ((64, 8192, 2048, 7168), (16, 8192, 8192, 5120)))
    line = TensorMapL2Promotion.B128
    assert candidates(few)[0].params.l2_promotions == L2Promotions(line, line)
    assert candidates(many)[0].params.l2_promotions == L2Promotions()


def test_sums_are_by_warpgroups_that_share_tiles() -> None:
    found = [c.params for c in candidates(problem("sums"))]
    assert found
    assert all(p.dynamic and not p.ping_pong for p in found)
    assert any(p.ping_pong for p in (c.params for c in candidates(problem("rows"))))


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_tiles_of_a_strip_of_weights_follow_each_other(form: str) -> None:
    order = TileRasterizationOrder
    for params in (c.params for c in candidates(problem(form))):
        by_rows = (form == "rows") is not params.exchange_operands
        assert params.cta_order is (order.ColumnMajor if by_rows else order.RowMajor)


MEASURED = {
    (16, 8192, 8192, 5120): {
        "128x192pp2": 1107, "128x176pp2": 1108, "64x256co1": 1133, "128x160pp2": 1142,
        "128x144pp2": 1142, "256x128co2ex": 1158, "128x256co2": 1165, "128x192co2": 1179,
        "192x192co3": 1197, "128x176pp2ex": 1228, "256x128co2": 1360,
    },
    (8, 4096, 14336, 4096): {
        "64x224pp2": 739, "128x160pp2": 754, "128x192pp2": 756, "128x176pp2": 759,
        "128x160pp2c12": 760, "256x128co2ex": 772, "128x144pp2": 772, "64x256co1": 782,
        "128x192co2": 812, "128x256co2": 815, "192x192co3": 861, "256x128co2": 1004,
    },
    (64, 8192, 2048, 7168): {
        "64x256co1": 568, "128x256co2": 618, "128x176pp2": 620, "256x128co2ex": 638,
        "128x192pp2": 646, "128x176co2": 659, "128x176co2c12": 661, "128x256co2c12": 661,
        "128x144pp2": 667, "128x240co2": 697,
    },
}  # fmt: skip
"""Microseconds of groups of rows (H200, 2026-11-23, sizes from two seeds, kernels in turn) by tile,
warpgroups in turns or together and their number, exchanged, cluster. Cooperative ones of 128 rows
and more left warpgroups idle then; here is what they took in proportion when none was, the same day
(design/performance.md).
"""


def measured(sizes: tuple[int, int, int, int]) -> list[tuple[Candidate, int]]:
    """Candidates that were measured, the least prediction first, and what they took."""
    groups, whole, n, k = sizes
    found = []
    for c in candidates(problem("rows", groups, whole, n, k)):
        p, cluster = c.params, c.params.cluster_dims
        shared = f"c{cluster.m}{cluster.n}" * (cluster.m * cluster.n > 1)
        way = f"{'pp' if p.ping_pong else 'co'}{p.warpgroups}{'ex' * p.exchange_operands}{shared}"
        us = MEASURED[sizes].get(f"{p.output_tile.m}x{p.output_tile.n}{way}")
        if us is not None and p.output_tile.k == 64:
            found.append((c, us))
    assert len(found) == len(MEASURED[sizes])
    return found


@pytest.mark.parametrize("sizes", MEASURED)
def test_the_choice_is_near_the_fastest_measured(sizes: tuple[int, int, int, int]) -> None:
    """Tiles padded to few rows, strips of weights that all tiles read together."""
    (_, us), *_ = measured(sizes)
    assert us <= 1.025 * min(MEASURED[sizes].values())


@pytest.mark.parametrize("sizes", MEASURED)
def test_what_is_predicted_is_what_was_measured(sizes: tuple[int, int, int, int]) -> None:
    ratios = [c.cost.us / us for c, us in measured(sizes)]
    assert min(ratios) > 0.89 and max(ratios) < 1.15
    assert sum(ratios) / len(ratios) == pytest.approx(1, abs=0.04)


def test_what_comes_from_memory_twice() -> None:
    """Of a group with more rows than the L2 holds, a strip of weights reads all of them again."""
    few, many = (problem("rows", 2, 2 * rows, 8192, 8192) for rows in (2048, 4096))
    tile = dynamic(ping_pong(128, 128, 64, stages=4))
    for made, passes in ((few, 1), (many, 64)):
        a, b = (x // 2 for x in made.operand_bytes)
        moved = memory_bytes(made, tile, *made.tiles(tile))
        assert moved == 2 * (passes * a + b) + result_bytes(made)
