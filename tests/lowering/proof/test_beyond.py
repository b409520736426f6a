"""What is done behind the end of a parameter: it is followed where that would be too little."""

from __future__ import annotations

from functools import cache

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.beyond import Beyond
from lowering.proof.circles import circles
from lowering.proof.obligation import Obligation, Verdict
from tests.mutants.subjects import subject


@cache
def text() -> str:
    return print_kernel(subject("coop_2_stages").kernel)


def claimed(before: str, after: str) -> list[Obligation]:
    """The open claims of the one order about a kernel whose text is changed."""
    assert before in text()
    kernel = parse_kernel(text().replace(before, after))
    return [o for o in circles(kernel, agents(kernel)) if o.open]


STEPS, ROWS = "n_k: i32 = ceildiv(K, 64)", "n_Mo: i32 = ceildiv(M, 128)"

FAULTS = {
    "steps of something else": (
        STEPS, "n_k: i32 = ceildiv(step_bytes, 64)", "operands",
        "at M = 128, N = 256, K = 49153 on 1 x 1 x 1 CTAs T5[0, 0] gets 0 .. 49152 of 0 .. 49153",
    ),
    "a number of steps": (
        STEPS, "n_k: i32 = 9 + N - N", "operands", "gets 0 .. 576 of 0 .. 577 of K of T0 and T1",
    ),
    "rows of something else": (
        ROWS, "n_Mo: i32 = ceildiv(step_bytes, 4096)", "results",
        "at M = 1537, N = 256, K = 64 on 1 x 1 x 1 CTAs 393216 of 393472 elements of T5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_enough_for_small_sizes(fault: str) -> None:
    """At each size that is followed anyway it was."""
    before, after, name, why = FAULTS[fault]
    (found,) = claimed(before, after)
    assert (found.name, found.verdict) == (name, Verdict.REFUTED)
    assert why in found.why


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(STEPS, "n_k: i32 = ceildiv(K, 64) + 8", id="steps"),
        pytest.param(STEPS, "n_k: i32 = max(ceildiv(K, 64), 9)", id="at least"),
        pytest.param(ROWS, "n_Mo: i32 = ceildiv(M, 128) + 6", id="rows"),
    ],
)
def test_more_than_enough_at_all_sizes(before: str, after: str) -> None:
    """Of steps and rows behind the end zeros are added, and nothing is stored."""
    assert not claimed(before, after)


@pytest.mark.slow
def test_too_many_tiles_are_not_followed() -> None:
    (found, *_) = claimed("n_tiles: i32 = n_Mo * n_No", "n_tiles: i32 = M * n_No")
    assert found.verdict is Verdict.UNPROVED
    assert found.why.startswith("more than 400000 steps at M = 16385, ")


def test_sizes() -> None:
    """Each once, of what is idle behind the largest that is followed: by a unit for each CTA that
    shares it. A list's own size is no parameter of its own.
    """
    units = {"M": 128, "N": 64, "N0": 64, "K": 64}
    beyond = Beyond(units, 2, dict.fromkeys(units, 513))
    at = {"M": 500, "N": 64, "N0": 64, "K": 64}
    assert not [*beyond.sizes(at, {"M": 755})]
    assert not [*beyond.sizes(at, {"N": 1000, "K": 512})]
    found = [*beyond.sizes(at, {"M": 756, "N0": 513, "N": 513})]
    assert found == [("M", {**at, "M": 757}), ("N0", {**at, "N0": 514})]
    assert not [*beyond.sizes(at, {"M": 9999, "K": 190})]
