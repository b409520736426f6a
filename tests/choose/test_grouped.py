"""Problems of groups: what they share out, what the model counts, which tiles are candidates."""

from __future__ import annotations

import pytest

from tests.grouped import FORMS, grouped
from tests.schedules import cooperative, dynamic, exchanged, ping_pong
from wsched.choose.cost_model import IDLE, UNEVEN, cost
from wsched.choose.gpus import H200_SMS
from wsched.choose.heuristics import candidates
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
