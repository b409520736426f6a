"""Groups whose ends memory says: of all kinds, and what is wrong for some of them only."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.circles import _sizes, circles
from lowering.proof.ends import Ends, Way, Words, grouped
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.sizes import units_of
from tests.grouped import FORMS
from tests.grouped import grouped as definition
from tests.lowering.proof.test_prove import kernel_of
from tests.lowering.proof.test_wraps import in_groups
from tests.mutants.subjects import subject
from tests.schedules import SCHEDULES
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import SupportedVectorization

BOUNDS = {"rows": ("M", 128), "columns": ("N", 256), "sums": ("K", 64)}
"""Up to where groups of each form go, and what their sizes are divided by."""


@cache
def made(form: str) -> Kernel:
    params = SCHEDULES["dynamic"]
    if form == "columns":
        vector = SupportedVectorization(1)
        params = replace(params, use_smem_epilogue=False, supported_vec_size=vector)
    return compile_fusion(import_fusion(definition(ranks=FORMS[form])), params).kernel


def refuted(kernel: Kernel) -> list[Obligation]:
    return [o for o in circles(kernel, agents(kernel)) if o.verdict is Verdict.REFUTED]


@pytest.mark.parametrize(
    ("way", "one", "two", "four"),
    [
        (Way.UNEQUAL, (800,), (100, 800), (100, 700, 800, 1600)),
        (Way.FEW, (100,), (100, 700), (100, 700, 700, 700)),
        (Way.HALVES, (800,), (400, 800), (0, 400, 800, 1600)),
        (Way.ONE, (800,), (0, 800), (0, 0, 800, 1600)),
        (Way.TILES, (800,), (301, 800), (200, 400, 600, 800)),
    ],
)
def test_ends(way: Way, one: tuple[int, ...], two: tuple[int, ...], four: tuple[int, ...]) -> None:
    for wanted in (one, two, four):
        ends = Ends(way, 800, 300, {"o": len(wanted)})
        assert ends.all == wanted
        assert ends("o", (0, 0)) == wanted[0]


@pytest.mark.parametrize("form", FORMS)
def test_what_groups_are_of(form: str) -> None:
    """How many there are is a parameter, and so is how far they go: as many tiles as of others."""
    kernel, (bound, unit) = made(form), BOUNDS[form]
    assert Words.of(kernel).bounds == {bound}
    assert grouped(kernel) == {"B", bound}
    assert units_of(kernel)[bound] == unit


def test_many_groups_of_few_rows() -> None:
    """Of less than a tile for each group as many rows each; of fewer rows than groups one each."""
    assert Ends(Way.TILES, 800, 300, {"o": 5}).all == (160, 320, 480, 640, 800)
    assert Ends(Way.TILES, 3, 300, {"o": 5}).all == (1, 2, 3, 3, 3)


def test_a_kernel_without_groups() -> None:
    kernel = kernel_of("coop_128x64")
    assert not Words.of(kernel).bounds
    assert not grouped(kernel)


FAULTS = {
    "the first row is the first group's": (
        "rows", "min(max(end_read, begin), M)", "min(max(max(end_read, begin), 1), M)", "operands",
    ),
    "the first column is the first group's": (
        "columns", "min(max(end_read, begin), N)", "min(max(max(end_read, begin), 1), N)",
        "operands",
    ),
    "a row behind a tile is left out": (
        "rows", "ceildiv(size, 128)", "((size + 126) // 128)", "results",
    ),
    "a column behind a tile is left out": (
        "columns", "ceildiv(size, 256)", "((size + 254) // 256)", "results",
    ),
    "a step of one k is left out": (
        "sums", "i32 = max(ceildiv(size, 64), 1)", "i32 = max((size + 62) // 64, 1)", "operands",
    ),
    "a sum begins where all groups do": (
        "sums", "queue_begin[stage_turn, 0], begin", "queue_begin[stage_turn, 0], 0 * begin",
        "operands",
    ),
    "a sum goes on behind its group": (
        "sums", "i32 = size - max(ceildiv(size, 64), 1) * 64", "i32 = 0", "operands",
    ),
    "a sum ends in front of the end of its group": (
        "sums", "i32 = size - max(", "i32 = size - 1 - max(", "operands",
    ),
    "an empty group has the sum of another one": (
        "sums", "i32 = max(ceildiv(size, 64), 1)", "i32 = ceildiv(size, 64)", "operands",
    ),
    "a sum is stored as that of another group": (
        "sums", "queue_B[stage_turn, 0], group3", "queue_B[stage_turn, 0], B - 1 - group3",
        "operands",
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_for_some_groups(name: str) -> None:
    form, before, after, claim = FAULTS[name]
    text = print_kernel(made(form))
    assert before in text
    assert claim in {o.name for o in refuted(parse_kernel(text.replace(before, after)))}


def test_groups_of_few_columns_beside_many_rows() -> None:
    """Tiles of all rows have to be written, however much longer those are than groups go."""
    text = print_kernel(subject("grouped_columns").kernel)
    before, after = (f"2147483647 // max(divisor, {least})" for least in (1, 2))
    assert before in text
    (found,) = refuted(parse_kernel(text.replace(before, after)))
    assert found.name == "results"
    where = "at B = 1, M = 513, N = 16, K = 32 on 1 x 1 x 1 CTAs"
    assert found.why == f"{where} 2048 of 8208 elements of T5 are written"


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_what_is_right_for_all_groups(form: str) -> None:
    assert not refuted(made(form))


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_groups_end_in_all_ways_that_there_are(form: str) -> None:
    """Many of a few rows each beside many steps, too; where there are no groups in one alone."""
    kernel = in_groups(form).kernel
    found = [*_sizes(kernel, units_of(kernel), False)]
    assert {size.way for size in found} == {*Way} - {Way.PARTS}
    assert any(s.way is Way.TILES and s.sizes["K"] > 8 * 64 and s.sizes["B"] > 8 for s in found)
    alone = kernel_of("coop_128x64")
    assert {size.way for size in _sizes(alone, units_of(alone), False)} == {Way.UNEQUAL}
