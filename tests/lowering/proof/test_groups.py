"""Tiles that are dealt out in groups: whole groups are followed, and a rest."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.circles import circles
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.sizes import Group, groups_of
from tests.lowering.proof.test_prove import kernel_of
from tests.schedules import QUICK, SCHEDULES, cooperative, definition, split_k
from tests.tiers import in_tiers
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import ClusterDims, MatmulParams

SIXTEEN = MatmulParams(grid_traversal_factor=(16, 1), cluster_dims=ClusterDims(2, 1))
"""The README's own."""

PARTS = split_k(cooperative(64, 64, groups=1, registers=None, stages=3), 16)


@cache
def made(params: MatmulParams) -> Kernel:
    return compile_fusion(import_fusion(definition()), params).kernel


def open_of(kernel: Kernel) -> list[Obligation]:
    """The claims about grids that are not proved."""
    return [o for o in circles(kernel, agents(kernel)) if o.verdict is not Verdict.PROVED]


def changed(kernel: Kernel, before: str, after: str, count: int = -1) -> list[Obligation]:
    """What is open of a kernel with some of its text replaced."""
    text = print_kernel(kernel)
    assert before in text
    return open_of(parse_kernel(text.replace(before, after, count)))


TRAVERSALS = {
    "coop_traversal": "at M = 1153, N = 129, K = 65 on 3 x 1 x 1 CTAs",
    "cluster_2x1": "at M = 2048, N = 257, K = 65 on 2 x 1 x 1 CTAs",
}


@pytest.mark.parametrize("count", [1, -1])
@pytest.mark.parametrize("name", in_tiers(TRAVERSALS, ["coop_traversal"]))
def test_a_whole_group_of_tiles(name: str, count: int) -> None:
    """Rows of a group that are those of another one, in who stores or in all: with fewer tiles than
    make a group the machine says as well that all is right.
    """
    found = changed(kernel_of(name), " % 8, select", " % 4, select", count)
    assert found[0].name == "results" and {o.verdict for o in found} == {Verdict.REFUTED}
    assert all(o.why.startswith(TRAVERSALS[name]) for o in found)
    assert [o.name for o in found[1:]] == ["operands"] * (count == 1)


@pytest.mark.slow
def test_a_whole_group_of_tiles_each_of_a_cta() -> None:
    """All CTAs are followed, also if they are as many as the tiles."""
    params = replace(SCHEDULES["tile_per_cta_256"], grid_traversal_factor=(32, 1))
    assert not open_of(made(params))
    found = changed(made(params), " * 32) % 32", " * 32) % 16")
    assert [(o.name, o.verdict) for o in found] == [("results", Verdict.REFUTED)]
    assert "M = 4225, N = 257, K = 65 on 68 x 1 x 1 CTAs" in found[0].why


@pytest.mark.slow
def test_a_whole_group_of_sixteen() -> None:
    assert not open_of(made(SIXTEEN))
    found = changed(made(SIXTEEN), " % 16, select", " % 8, select")
    assert [(o.name, o.verdict) for o in found] == [("results", Verdict.REFUTED)]
    assert "M = 4096" in found[0].why


def test_more_than_can_be_followed() -> None:
    """Groups that are too large to be followed leave everything about grids open."""
    params = replace(SCHEDULES["coop_traversal"], grid_traversal_factor=(33, 1))
    found = {o.name: o for o in open_of(made(params))}
    assert {*found} == {"circles of waits", "results", "operands"}
    for o in found.values():
        why = "M is dealt out in groups of 33 tiles, of which at most 32 are followed"
        assert (o.verdict, o.why) == (Verdict.UNPROVED, why)


@pytest.mark.slow
def test_parts_of_k() -> None:
    """CTAs that wait for the sums of others are followed together, also if they are many; three
    for each part as well, and parts of more steps than there are stages.
    """
    assert not open_of(made(PARTS))
    (found,) = changed(made(PARTS), "T1[No3 * 64", "T1[No3 * 32")
    assert (found.name, found.verdict) == ("operands", Verdict.REFUTED)
    assert found.why.startswith("at M = 64, N = 65, K = 64 on 1 x 1 x 16 CTAs")


def test_more_parts_of_k_than_can_be_followed() -> None:
    found = {o.name: o for o in open_of(made(replace(PARTS, splitk_factor=65)))}
    assert {*found} == {"circles of waits", "results", "operands"}
    for o in found.values():
        assert o.verdict is Verdict.UNPROVED
        assert o.why == "K is dealt out in groups of 65 tiles, of which at most 32 are followed"


def test_a_launch_that_there_is_not() -> None:
    """Of a kernel that launches nothing at any size nothing is proved."""
    text = print_kernel(made(PARTS))
    grid = text[text.index(" grid ") : text.index(" {")]
    found = open_of(parse_kernel(text.replace(grid, " grid min(M, 0) splits 16", 1)))
    assert {o.name for o in found} == {"circles of waits", "results", "operands"}
    assert {o.why for o in found} == {"there is no launch at any size that is looked at"}


GROUPS = {
    "coop_128x128": set[Group](),
    "coop_traversal": {Group("M", 128, 8, extent=False)},
    "coop_traversal_odd": {Group("N", 64, 3, extent=False)},
    "cluster_2x1": {Group("M", 128, 2, extent=True), Group("M", 256, 8, extent=False)},
    "split_8_1_group": {Group("K", 64, 8, extent=True)},
    "pingpong_64x128": {Group("K", 64, 7, extent=False), Group("K", 448, 2, extent=False)},
}


@pytest.mark.parametrize("name", in_tiers(GROUPS, QUICK))
def test_groups(name: str) -> None:
    """What tiles and steps of schedules are dealt out in."""
    assert groups_of(kernel_of(name), 7) == GROUPS[name]


def test_digits() -> None:
    """A number by which only a tile's own number is divided may be one of any parameter."""
    text, before = print_kernel(kernel_of("coop_128x128")), "let No: i32 = "
    assert before in text
    kernel = parse_kernel(text.replace(before, before + "min(tile % 20, 0) + ", 1))
    found = {(g.param, g.unit, g.count) for g in groups_of(kernel, 7)}
    assert found == {("M", 128, 20), ("N", 128, 20), ("K", 64, 20)}


@pytest.mark.parametrize(
    ("chunks", "groups"), [("4", set[int]()), ("4 + 0 * tile", {128})], ids=["counted", "unknown"]
)
def test_digits_of_chunks(chunks: str, groups: set[int]) -> None:
    """The trips of a loop that has a number of them are followed one by one."""
    text, before = print_kernel(kernel_of("coop_2_stages")), "for chunk in 0 .. 4 unroll {"
    assert before in text
    half = f"for chunk in 0 .. {chunks} {{\n let half: i32 = chunk * 64 // 128"
    kernel = parse_kernel(text.replace(before, half, 1))
    assert {g.count for g in groups_of(kernel, 7)} == groups


QUOTIENTS = {
    "a rest of more than the divisor": ("select(divisor <= rest, 1, 0) < n_Mo",
                                        "select(divisor <= rest, 2, 0) < n_Mo", Verdict.REFUTED),
    "another reciprocal": ("= 2147483647 // max(divisor, 1)", "= 2147483646 // max(divisor, 1)",
                           Verdict.UNPROVED),
}  # fmt: skip


@pytest.mark.parametrize("fault", QUOTIENTS)
def test_quotients_of_large_numbers(fault: str) -> None:
    """Quotients that are made by multiplication are one too small for few of the small numbers that
    are followed, and for many of the large ones.
    """
    before, after, verdict = QUOTIENTS[fault]
    found = changed(kernel_of("coop_traversal"), before, after, 1)
    assert "results" in {o.name for o in found} and {o.verdict for o in found} == {verdict}
