"""Kernels whose CTAs multiply in pairs are proved, and broken ones are not."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from tests.epilogues import RESIDUAL
from tests.lowering.machine.test_pairs import FAULTS, FREE, SYNC, text
from tests.pairs import CLUSTERS, PAIRS, V9, made
from tests.rungs import kernel
from tests.tiers import in_tiers
from wsched.run.counts import admitted_by

OF_VALUES = {
    "mixed groups", "a product of the odd CTA", "a mask of a CTA that is not there",
}  # fmt: skip
"""Faults that are none of the protocol's: ``verify`` finds them, and the machine."""

QUICK = "registers", "queue", "2x2-alone", "4x1-pairs"
"""Of each kind, the cheaper ones."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", in_tiers([*PAIRS, *CLUSTERS], QUICK))
def test_proved(name: str) -> None:
    kernel = made((PAIRS | CLUSTERS)[name])
    proof = prove(kernel.kernel, admitted_by(kernel.plan))
    assert proof.proved, proof


@pytest.mark.slow
def test_an_epilogue_with_a_ring_of_its_own_is_proved() -> None:
    kernel = made(V9, RESIDUAL)
    proof = prove(kernel.kernel, admitted_by(kernel.plan))
    assert proof.proved, proof


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in OF_VALUES])
def test_faults_are_not_proved(fault: str) -> None:
    old, new, _ = FAULTS[fault]
    assert not prove(parse_kernel(text().replace(old, new))).proved


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("ring_empty[stage_k], multicast=3", "ring_empty[stage_k]",
         "0 arrivals for a step at CTA 1, which awaits 1"),
        ("acc_full[stage_tile], multicast=3", "acc_full[stage_tile]",
         "0 arrivals for a step at CTA 1, which awaits 1"),
        ("ring_full[stage_k], parity_k, order=acquire.cluster", "ring_full[stage_k], parity_k",
         "acquire.cta of what other CTAs tell of"),
        ("bar=ring_full[stage_k2], cta_group=2", "bar=ring_full[stage_k2]",
         "bytes land in CTA 0"),
        (f"{FREE}  cluster.sync\n", FREE, "a CTA may leave before"),
        (" + %cluster.ctarank * 16", "", "gets column -16 of T1"),
        (SYNC, SYNC.replace("cluster", "cta"), "meet in syncs of one CTA"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_fault(old: str, new: str, why: str) -> None:
    assert old in text()
    proof = prove(parse_kernel(text().replace(old, new)))
    refuted = [o.why for o in proof.obligations if o.verdict is Verdict.REFUTED]
    assert any(why in w for w in refuted), proof


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("No3 * 128 + %cluster.ctarank * 64", "No3 * 128"),
        ("(Mo3 * 2 + rank3) * 128", "Mo3 * 256"),
    ],
    ids=["columns", "rows"],
)
def test_both_have_the_same_half(old: str, new: str) -> None:
    """Each CTA is to have its rows of A, and its half of the columns of B."""
    dumped = kernel(9, "sm_100a").dump("kernel")
    assert dumped.count(old) == 1
    found = prove(parse_kernel(dumped.replace(old, new))).obligations
    assert [o.name for o in found if o.verdict is Verdict.REFUTED] == ["operands"]
