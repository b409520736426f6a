"""Which launches are followed: so many CTAs as something in a kernel is made for, and one more."""

from __future__ import annotations

import re

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.prove import prove
from lowering.proof.sizes import grids_of
from tests.mutants.subjects import subject

TEXT = print_kernel(subject("coop_2_stages").kernel)
APART = {
    "%nctaid.x + %nctaid.x // 4": 4,
    "min(%nctaid.x, 3)": 3,
    "select(%nctaid.x < 4, %nctaid.x, 3)": 4,
    "select(4 < %nctaid.x, 3, %nctaid.x)": 4,
    "%nctaid.x - %nctaid.x // 5": 5,
}


@pytest.mark.parametrize("apart", APART)
def test_ctas_that_are_apart_only_where_there_are_many(apart: str) -> None:
    """Tiles of a CTA are as far apart as there are CTAs, at all numbers of them below one."""
    before = "* %nctaid.x + %ctaid.x"
    assert TEXT.count(before) == 2, "a load and a compute loop"
    kernel = parse_kernel(TEXT.replace(before, f"* ({apart}) + %ctaid.x"))
    assert grids_of(kernel) == {APART[apart]}
    found = prove(kernel, subject("coop_2_stages").admitted)
    assert any(o.name == "results" for o in found.open), found


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        ("min({}, 20)", "T5[2560.."),
        ("select(20 <= {}, 19, {})", "T5[2432.."),
        ("min({}, 100)", "dealt out in groups of 100 tiles, of which at most 32 are followed"),
    ],
)
def test_a_tile_that_is_cut_at_a_number(cut: str, why: str) -> None:
    """Beyond all tiles that would be followed otherwise; or nothing is said."""
    bound = re.compile(r"(let Mo2?: i32 = )(.*)")
    text = bound.sub(lambda m: m[1] + cut.replace("{}", f"({m[2]})"), TEXT)
    found = prove(parse_kernel(text), subject("coop_2_stages").admitted)
    assert any(o.name == "results" and why in o.why for o in found.open), found


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        ("select(K < 2000, K, 2000)", "at M = 129, N = 257, K = 4161 on 3"),
        ("min(K, 1000000)", "K is dealt out in groups of 15625 tiles, of which at most 32 are"),
    ],
)
def test_a_size_that_is_cut_at_a_number(cut: str, why: str) -> None:
    """Of more elements than all tiles that would be followed have."""
    before = "let n_k: i32 = ceildiv(K, 64)"
    assert before in TEXT
    kernel = parse_kernel(TEXT.replace(before, f"let n_k: i32 = ceildiv({cut}, 64)"))
    found = prove(kernel, subject("coop_2_stages").admitted)
    assert any(o.name == "operands" and why in o.why for o in found.open), found


def test_more_ctas_than_are_followed() -> None:
    """A number that is a dividend is nothing that CTAs are many of."""
    for apart, grids in (("min(%nctaid.x, 5000)", {5000}), ("5000 // max(%nctaid.x, 1)", set())):
        kernel = parse_kernel(TEXT.replace("* %nctaid.x +", f"* {apart} +"))
        assert grids_of(kernel) == grids
    kernel = parse_kernel(TEXT.replace("* %nctaid.x +", "* min(%nctaid.x, 5000) +"))
    why = "5000 CTAs may do otherwise than more of them, of which at most"
    assert any(why in o.why for o in prove(kernel).open)
