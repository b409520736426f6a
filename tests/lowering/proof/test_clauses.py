"""A planted fault for each clause that has none elsewhere (the table in design/0033)."""

from __future__ import annotations

from functools import cache

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from tests.lowering.machine.kernels import matmul_text
from tests.lowering.proof.test_prove import kernel_of
from tests.mutants.subjects import subject
from tests.schedules import SCHEDULES

LAST = "  cluster.sync\n  on %warp 0"
IF, FENCE = "if {} {{ {} }}\n", "fence.mbarrier_init\n"
INITS = """for ring_init in 0 .. 4 unroll {
        mbarrier.init ring_full[ring_init], 1
        mbarrier.init ring_empty[ring_init], 8
      }
"""
INITS_OF_2 = INITS.replace(", 8", ", 16")
INVALS = """for ring_inval in 0 .. 4 unroll {
        mbarrier.inval ring_full[ring_inval]
        mbarrier.inval ring_empty[ring_inval]
      }
"""
TOLD = "relaxed.cluster of what threads have stored or loaded"

BEFORE = "select(stage_k < 1, stage_k + {}, stage_k - 1)"


def relaxed(statement: str) -> tuple[str, str]:
    """A statement, and the same with an order that hands on no accesses of threads."""
    return f"{statement}\n", f"{statement}, order=relaxed.cluster\n"


FAULTS = {
    "bytes of a box that is clipped": (
        "coop_128x128", "min(M, 128) * 128 + ", "128 * 128 + ", "bytes", "bytes land in CTA 0",
    ),
    "a multicast that leaves out a peer": (
        "cluster_2x1", "multicast=3 <<", "multicast=1 <<", "bytes", "bytes land in CTA",
    ),
    "a peer leaves that is signalled": (
        "cluster_2x1", LAST, LAST.replace("cluster", "cta"), "lifetime of mbarriers",
        "a CTA of the cluster is reached, but the syncs are those of one CTA",
    ),
    "a peer is signalled before its inits": (
        "cluster_2x1", "  cluster.sync\n  roles", "  cta.sync\n  roles", "lifetime of mbarriers",
        "a CTA of the cluster is reached, but the syncs are those of one CTA",
    ),
    "inits that nobody publishes": (
        "cluster_2x1", "      fence.mbarrier_init\n", "", "lifetime of mbarriers",
        "no fence.mbarrier_init between the inits and the sync",
    ),
    "inits of every other stage": (
        "tile_per_cta", "for ring_init in 0 .. 4 unroll", "for ring_init in 0 .. 4 step 2 unroll",
        "mbarrier.init", "mbarrier.init of (stage, arrivals), how often: {(0, 1): 1, (2, 1): 1}",
    ),
    "inits at some sizes": (
        "tile_per_cta", INITS, IF.format("K < 64", INITS), "mbarrier.init",
        "mbarrier.init of (stage, arrivals), how often: {(-1, 1): 1}",
    ),
    "inits in one CTA": (
        "cluster_2x1", INITS_OF_2, IF.format("%cluster.ctarank == 0", INITS_OF_2), "mbarrier.init",
        "mbarrier.init in CTA 1 of (stage, arrivals), how often: {}",
    ),
    "invals in one CTA": (
        "cluster_2x1", INVALS, IF.format("%cluster.ctarank == 1", INVALS), "mbarrier.inval",
        "mbarrier.inval of (stage, arrivals), how often: {}",
    ),
    "a fence in no trip": (
        "tile_per_cta", FENCE, f"for none in 0 .. 0 {{ {FENCE} }}\n", "lifetime of mbarriers",
        "no fence.mbarrier_init between the inits and the sync",
    ),
    "a fence in one CTA of the grid": (
        "tile_per_cta", FENCE, IF.format("%ctaid.x == 0", FENCE), "lifetime of mbarriers",
        "no fence.mbarrier_init between the inits and the sync",
    ),
    "a fence in one CTA of the cluster": (
        "cluster_2x1", FENCE, IF.format("%cluster.ctarank == 0", FENCE), "lifetime of mbarriers",
        "no fence.mbarrier_init between the inits and the sync",
    ),
    "a named barrier of the other warpgroup in one CTA": (
        "deferred_cluster", "bar.sync T5_store[group]",
        "bar.sync T5_store[group * (1 - %cluster.ctarank)]", "named barriers",
        "CTA 1: 256 threads come to T5_store[0], 128 do not",
    ),
    "a relaxed wait for what threads copy": (
        "a_by_threads", *relaxed("mbarrier.wait ring_full[stage_k], parity_k"), "step", TOLD,
    ),
    "a relaxed arrival of who has copied": (
        "a_by_threads", *relaxed("mbarrier.arrive ring_full[stage_k2]"), "fill", TOLD,
    ),
    "a relaxed wait of who copies": (
        "a_by_threads", *relaxed("mbarrier.wait ring_empty[stage_k2], parity_k2"), "step", TOLD,
    ),
    "a relaxed wait for a word": (
        "dynamic", *relaxed("mbarrier.wait queue_full[stage_tile], parity_tile"), "step", TOLD,
    ),
    "a relaxed arrival of who has stored a word": (
        "dynamic", *relaxed("mbarrier.arrive queue_full[stage_entry]"), "fill", TOLD,
    ),
    "a relaxed wait of who stores a word": (
        "dynamic", *relaxed("mbarrier.wait queue_empty[stage_entry], parity_entry"), "step", TOLD,
    ),
    "a relaxed arrival of who has loaded a word": (
        "dynamic", *relaxed("mbarrier.arrive queue_empty[stage_tile]"), "release", TOLD,
    ),
    "a relaxed arrival of who has loaded a stage": (
        "computed", *relaxed("mbarrier.arrive aux_empty[stage_k]"), "release", TOLD,
    ),
    "a relaxed wait of who loads a stage": (
        "computed", *relaxed("mbarrier.wait aux_full[stage_k], parity_k"), "step", TOLD,
    ),
    "a stage of the other CTA": (
        "computed_cluster", "= ld.shared T8[stage_k, group * 64, 0]",
        "= ld.shared T8[stage_k, group * 64, 0], cta=%cluster.ctarank ^ 1", "steps of rings",
        "ld.shared reads a stage of CTA 1",
    ),
    "memory of the grid in front": (
        "coop_128x128", "      griddepcontrol.wait\n", "", "griddepcontrol.wait",
        "before the wait",
    ),
    "a loop of no trips": (
        "coop_128x128", "if 0 < n_k {\n          elect", "if 0 <= n_k {\n          elect",
        "release", "no step is left to release",
    ),
    "a wait for a phase that is two behind": (
        "coop_128x128", "ring_full[stage_k], parity_k\n", "ring_full[stage_k], parity_k ^ 1\n",
        "circles of waits", "warps wait for each other for ever",
    ),
    "slices of different places in K": (
        "coop_128x128", "T7[stage_k, 0, 16]", "T7[stage_k, 0, 32]", "products",
        "acc_next_k16 multiplies the slice at 16 by that at 32",
    ),
    "rows of the other warpgroup": (
        "coop_128x128", "T6[stage_k, group * 64, 16]", "T6[stage_k, 0, 16]", "products",
        "acc_next_k16 is of other rows or columns than those in front of it",
    ),
    "a slice twice": (
        "coop_128x128", "T6[stage_k, group * 64, 16], T7[stage_k, 0, 16]",
        "T6[stage_k, group * 64, 0], T7[stage_k, 0, 0]", "products",
        "acc_next_k16 adds the slice at 0 again",
    ),
    "a step for one role only": (
        "dynamic", "for k2 in 0 .. n_k ", "for k2 in 1 .. n_k ", "same steps", "",
    ),
    "a relaxed order of what threads have read": (
        "dynamic_cluster", "mbarrier.arrive queue_empty[stage_tile], cta=0, order=release.cluster",
        "mbarrier.arrive queue_empty[stage_tile], cta=0, order=relaxed.cluster", "release",
        "relaxed.cluster at CTA 0 of what threads have stored or loaded",
    ),
}  # fmt: skip


@cache
def text_of(name: str) -> str:
    made = kernel_of(name) if name in SCHEDULES else subject(name).kernel
    return print_kernel(made)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault(fault: str) -> None:
    """The claim is open that is about it."""
    name, before, after, claim, why = FAULTS[fault]
    text = text_of(name)
    assert before in text
    found = prove(parse_kernel(text.replace(before, after))).open
    assert [o for o in found if o.name == claim and why in o.why], "\n".join(map(str, found))


@pytest.mark.slow
def test_more_bytes_than_a_phase_counts() -> None:
    """Forty copies of 32 KB are announced and land, on one phase."""
    text = matmul_text()
    (copy,) = (line for line in text.splitlines() if "tma.load a_s" in line)
    (one,) = (line for line in text.splitlines() if "expect_tx" in line)
    many = text.replace(copy, "\n".join([copy] * 128)).replace("bytes=24576", "bytes=2105344")
    assert one in text and many != text
    (claim,) = [o for o in prove(parse_kernel(many)).open if o.name == "transaction count"]
    assert claim.why == "2105344 may be above 1048575"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "statements"),
    [
        ("tile_per_cta", ("mbarrier.wait ring_full[stage_k], parity_k",
                          f"mbarrier.arrive ring_empty[{BEFORE.format(3)}]",
                          "mbarrier.wait ring_empty[stage_k2], parity_k2")),
        ("a_by_threads", (f"mbarrier.arrive ring_empty[{BEFORE.format(2)}]",)),
        ("tensor_memory", ("mbarrier.wait acc_empty[stage_tile], parity_tile",
                           "mbarrier.arrive acc_empty[stage_tile2]")),
    ],
)  # fmt: skip
def test_relaxed_orders_of_what_threads_do_not_access(
    name: str, statements: tuple[str, ...]
) -> None:
    text = text_of(name)
    for statement in statements:
        before, after = relaxed(statement)
        assert before in text, text
        text = text.replace(before, after)
    assert prove(parse_kernel(text)).open == ()


def test_inits_and_a_fence_on_conditions_that_hold() -> None:
    """A condition that is a number for a trip is decided, and so is a loop of such trips."""
    text = text_of("tile_per_cta")
    here = "for z in 0 .. 2 { if z < 2 { for y in 0 .. 1 {"
    twos = INITS.replace("0 .. 4 unroll", "0 .. 4 step 2")
    odd = twos.replace("ring_init", "odd_init").replace("0 .. 4", "1 .. 4")
    edited = text.replace(FENCE, f"{here} {FENCE} }} }} }}\n").replace(INITS, twos + odd)
    assert edited.count("init in") == 2 and here in edited
    assert prove(parse_kernel(edited)).open == ()


@pytest.mark.slow
def test_inits_and_a_fence_on_conditions_that_hold_in_each_cta() -> None:
    text, first = text_of("cluster_2x1"), "%cluster.ctarank == 0"
    other = IF.format("%cluster.ctarank == 1", INITS_OF_2.replace("ring_init", "other_init"))
    edited = text.replace(INITS_OF_2, IF.format(first, INITS_OF_2) + other)
    edited = edited.replace(FENCE, f"if {first} {{ {FENCE} }} else {{ {FENCE} }}\n")
    assert edited.count(first) == 2
    assert prove(parse_kernel(edited)).open == ()


def test_a_statement_that_is_not_known() -> None:
    """What writes shared memory in ways that no claim is about is refused, never skipped."""
    text = text_of("cluster_2x1")
    at = "          wgmma.fence\n"
    copy = "          elect { bulk.copy T6[0, 0, 0], T6[1, 0, 0], ring_full[0], 0 }\n"
    found = prove(parse_kernel(text.replace(at, copy + at, 1))).open
    refused = {o.why for o in found if o.verdict is Verdict.UNPROVED}
    assert "bulk.copy writes shared memory by another proxy or asynchronously" in refused
