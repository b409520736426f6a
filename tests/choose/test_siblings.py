"""Kernels that share groups out, as candidates, beside times that were measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowering.ground.expr import Var, evaluate
from lowering.ground.sharing import Sharing
from tests.choose.test_grouped import problem
from wsched.choose.cost_model import SIBLING_US, cost, together
from wsched.choose.groups import shares_of, tiles_shared
from wsched.choose.heuristics import candidates
from wsched.choose.siblings import LEAST_GAIN, sharing_groups
from wsched.losses.effects import losses_of
from wsched.schedule.matmul.siblings import length_along, shared

SIXTEEN = (16, 8192, 8192, 5120)

MEASURED: dict[tuple[tuple[int, int, int, int], int], tuple[tuple[int, ...], float]] = {
    (SIXTEEN, 1): ((168, 144, 128), 0.936),
    ((32, 16384, 4096, 4096), 1): ((168, 144, 128), 0.914),
    ((8, 8192, 14336, 4096), 2): ((128, 104, 96, 88), 0.975),
    ((16, 4096, 8192, 5120), 2): ((128, 104, 96, 88), 0.964),
    ((8, 8192, 14336, 4096), 1): ((168, 144, 128), 0.988),
}
"""By a problem and its products: lengths of tiles, and of the best single kernel's time what they
took in the mean of six to eight lists of sizes (H200, 2026-11-29), by whole groups; the first four
multiplied with what parts of groups take of that (cycles, two to four lists each, 2026-11-30)."""


TWO_LISTS = {((32, 16384, 4096, 4096), 1)}
"""Of which parts of groups were measured with two lists alone, 0.965 and 0.993."""


@pytest.mark.parametrize("what", MEASURED)
def test_what_is_chosen_gained(what: tuple[tuple[int, int, int, int], int]) -> None:
    sizes, products = what
    made = replace(problem("rows", *sizes), b_count=products, work=13 * (products > 1))
    best, *others = candidates(made)
    lengths, ratio = MEASURED[what]
    kernels = (best.params, *best.params.siblings)
    assert tuple(length_along(p, rows=True) for p in kernels) == lengths
    off = 0.036 if what in TWO_LISTS else 0.035
    assert best.cost.us / others[0].cost.us == pytest.approx(ratio, abs=off)
    assert cost(made, best.params).us == pytest.approx(best.cost.us)
    assert all(p.programmatic_dependent_launch for p in kernels)


@pytest.mark.parametrize(
    ("sizes", "products"),
    [((64, 8192, 2048, 7168), 1), ((128, 4096, 1536, 4096), 1), ((128, 32768, 1536, 4096), 2)],
)
def test_where_memory_decides_there_is_one_kernel(
    sizes: tuple[int, int, int, int], products: int
) -> None:
    made = replace(problem("rows", *sizes), b_count=products)
    assert not any(c.params.siblings for c in candidates(made))


def test_a_row_of_which_nothing_may_depend_on_others() -> None:
    """The kernel that a group gets depends on its rows."""
    made = replace(problem("rows", *SIXTEEN), batch_invariant=True)
    assert not any(c.params.siblings for c in candidates(made))
    assert sharing_groups(made, ()) is None


@pytest.mark.parametrize("lengths", [(168, 144, 128), (144, 128), (200, 144)])
def test_shares_are_those_of_all_sizes(lengths: tuple[int, ...]) -> None:
    made = problem("rows", *SIXTEEN)
    by_length = {}
    for c in candidates(made):
        if not c.params.siblings and c.params.ping_pong and c.params.output_tile.m == 128:
            by_length.setdefault(length_along(c.params, rows=True), c.params)
    kernels = tuple(by_length[n] for n in lengths)
    drawn = range(1, 2 * made.m + 1)
    tiles = tiles_shared(np.array(drawn), lengths).sum(1)  # of a sample of which shares are
    for mine, n, share in zip(tiles, lengths, shares_of(made, kernels), strict=True):
        assert share == pytest.approx(mine / sum(-(-s // n) for s in drawn), abs=0.01)


def test_further_kernels_cost_their_start() -> None:
    """Two halves of one kernel are that kernel, and a start more."""
    made = problem("rows", *SIXTEEN)
    single = next(c for c in candidates(made) if not c.params.siblings)
    assert single.terms is not None
    halves = together([(single.terms, 0.5)] * 2)
    more = halves.launch_us - single.cost.launch_us
    assert more == pytest.approx(SIBLING_US)
    assert halves.main_us == pytest.approx(single.cost.main_us)
    best = candidates(made)[0]
    assert best.cost.by_laws <= LEAST_GAIN * single.cost.by_laws


def test_what_siblings_save_is_an_effect() -> None:
    made = problem("rows", *SIXTEEN)
    params = candidates(made)[0].params
    roofline, losses = losses_of(made, params)
    assert losses[-1].effect == "siblings" and losses[-1].us < 0
    total = roofline.us + sum(x.us for x in losses)
    assert total == pytest.approx(cost(made, params).us)
    assert losses_of(made, shared((replace(params, siblings=()),)))[1][-1].effect == "power"


@pytest.mark.parametrize("lengths", [(128, 104, 96, 88), (168, 144, 128), (64, 16), (96, 104)])
def test_shares_are_those_of_the_kernels(lengths: tuple[int, ...]) -> None:
    """By arrays as by the expressions that kernels compute."""
    sizes = [*range(0, 1200, 7)]
    tiles = tiles_shared(np.array(sizes), lengths)
    for own, length in enumerate(lengths):
        part = Sharing(lengths, own).part(Var("size")).size
        rows = [evaluate(part, {"size": size}) for size in sizes]
        assert tiles[own].tolist() == [-(-n // length) for n in rows]
