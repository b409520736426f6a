"""Problems of groups: what they share out, what the model counts, which tiles are candidates."""

from __future__ import annotations

import pytest

from tests.grouped import FORMS, grouped
from tests.schedules import cooperative, dynamic, exchanged, ping_pong
from wsched.choose.cost_model import IDLE, UNEVEN, cost, memory_bytes
from wsched.choose.gpus import H200_SMS
from wsched.choose.heuristics import candidates
from wsched.choose.memory import result_bytes
from wsched.choose.problem import Problem
from wsched.front.known import import_fusion
from wsched.schedule.matmul.params import TileRasterizationOrder

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
    """Half a tile more for each group and strip, less what idle warpgroups save; not of sums."""
    shared = dynamic(cooperative(128, 256, 64, stages=4))
    own, turned = dynamic(ping_pong(128, 128, 64, stages=4)), exchanged(shared)
    rows, columns, sums = map(problem, FORMS)
    saved = IDLE * UNEVEN / 2
    assert cost(rows, shared).tiles == 8 * (4 + UNEVEN - saved) * 8
    assert cost(rows, own).tiles == 8 * (4 + UNEVEN) * 16
    assert cost(columns, shared).tiles == 8 * (2 + UNEVEN) * 16
    assert cost(columns, turned).tiles == 8 * (4 + UNEVEN - saved) * 8
    assert cost(sums, shared).tiles == 8 * 16 * 4


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
        (128, 176, True, True): 1079, (128, 128, True, True): 1070, (128, 176, True, False): 1028,
        (128, 192, True, False): 1122,
    },
    (8, 4096, 14336, 4096): {
        (128, 128, True, True): 714, (128, 176, True, True): 742, (128, 160, True, False): 708,
        (128, 192, True, False): 698, (128, 176, True, False): 716, (128, 256, False, True): 803,
    },
}  # fmt: skip
"""Microseconds (H200, 2026-11-22, sizes from a seed, tiles in turn) by rows and columns of a tile,
ping-pong, exchanged: each without a cluster.
"""


@pytest.mark.parametrize("sizes", MEASURED)
def test_the_choice_is_near_the_fastest_measured(sizes: tuple[int, int, int, int]) -> None:
    """Rows of a group stay in the L2 while strips of its weights go by, exchanged or not."""
    groups, whole, n, k = sizes
    times = MEASURED[sizes]
    for c in candidates(problem("rows", groups, whole, n, k)):
        p, tile = c.params, c.params.output_tile
        us = times.get((tile.m, tile.n, p.ping_pong, p.exchange_operands))
        if us is not None and p.cluster_dims.m * p.cluster_dims.n == 1:
            assert us <= 1.02 * min(times.values())
            break
    else:
        pytest.fail("none of them is a candidate")


def test_what_comes_from_memory_twice() -> None:
    """Of a group with more rows than the L2 holds, a strip of weights reads all of them again."""
    few, many = (problem("rows", 2, 2 * rows, 8192, 8192) for rows in (2048, 4096))
    tile = dynamic(ping_pong(128, 128, 64, stages=4))
    for made, passes in ((few, 1), (many, 64)):
        a, b = (x // 2 for x in made.operand_bytes)
        moved = memory_bytes(made, tile, *made.tiles(tile))
        assert moved == 2 * (passes * a + b) + result_bytes(made)
