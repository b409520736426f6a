"""Shares of stream-K: one behind the other they are all steps."""

from __future__ import annotations

from functools import cache

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.prove import prove
from tests.mutants.subjects import subject

SUBJECT = "start .. stop"


@cache
def text(name: str) -> str:
    return print_kernel(subject(name).kernel)


@pytest.mark.parametrize("name", ["stream_k", "stream_k_cluster"])
def test_shares(name: str) -> None:
    """Of CTAs, and of clusters."""
    found = [o for o in prove(parse_kernel(text(name))).obligations if o.subject == SUBJECT]
    assert found == [Obligation("shares of CTAs", SUBJECT)]


SHARE = "share: i32 = ceildiv(steps, "
FAULTS = {
    "of rows": (SHARE, "share: i32 = ceildiv(M, ", "%nctaid.x shares of share may be less"),
    "of bytes": (SHARE, "share: i32 = ceildiv(step_bytes, ", "may be less than steps"),
    "up to a column": (
        "min(place * share, steps)", "min(place * share, N)",
        "starts go up to N, stops up to steps"),
    "another share": (
        "min(start + share, steps)", "min(start + max(share, 1), steps)",
        "starts are share apart, and max(share, 1) is taken from there"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_shares_of_something_else(fault: str) -> None:
    """They are enough at the sizes that are followed, so that nothing else is open."""
    before, after, why = FAULTS[fault]
    assert before in text("stream_k")
    (found,) = prove(parse_kernel(text("stream_k").replace(before, after))).open
    assert (found.name, found.verdict) == ("shares of CTAs", Verdict.UNPROVED)
    assert why in found.why


def test_places_that_are_none() -> None:
    """Of what no CTA stands for nothing is claimed."""
    other = text("stream_k").replace("place: i32 = %nctaid.x - 1 -", "place: i32 = %nctaid.x -")
    found = prove(parse_kernel(other))
    assert all(o.name != "shares of CTAs" for o in found.obligations)
    assert not found.proved
