"""Sums in tensor memory that those read who issue the products: any order, faults, proofs."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.machine import MachineError
from lowering.machine.adversary import Adversary
from lowering.proof.prove import prove
from tests.blackwell import Tile, final, plan
from tests.lowering.machine.test_tensor_memory import run
from tests.on_machine import Problem
from tests.proofs import proved
from tests.rungs import kernel as rung
from tests.rungs import ran
from wsched import Schedule
from wsched.front.own import kernel_of
from wsched.ladder.decisions import decide
from wsched.ladder.rungs import DEFINITION, RUNGS

SMALL = Tile(n=32, k=32, stages=2, sums=0, by_tma=False)
TILES = {
    "registers": SMALL,
    "tma": Tile(sums=0),
    "two-blocks": Tile(m=256, n=64, stages=1, sums=0),
    "queue": Tile(sums=0, queue=True),
}

COPIED = 2
"""A rung whose threads copy, in place."""


@lru_cache
def text() -> str:
    return print_kernel(final(SMALL))


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ["eager", "lazy", "random", "fair"])
@pytest.mark.parametrize("tile", TILES.values(), ids=TILES)
def test_right_in_any_order(tile: Tile, adversary: Adversary) -> None:
    run(final(tile), 300, 72, 104, adversary)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tile", TILES.values(), ids=TILES)
def test_proved(tile: Tile) -> None:
    proved(final(tile), plan(tile))


@pytest.mark.parametrize("number", [4, 5])
def test_ctas_of_a_cluster_share_operands(number: int) -> None:
    """Each loads a half for both, and tells both that its products have read a stage."""
    decided = replace(RUNGS[number - 1].decided, cluster=2)
    made = kernel_of(decide(Schedule(DEFINITION, target="sm_100a"), decided))
    assert made.kernel.cluster == 2 and made.proof().proved
    ran(made, Problem(520, 136, 200, 2), number)


def test_pairs_have_sums_of_their_own() -> None:
    decided = replace(RUNGS[3].decided, cluster=2)
    s = decide(Schedule(DEFINITION, target="sm_100a.cta_group::2"), decided)
    with pytest.raises(UnsupportedError, match="by a pair of CTAs beside what threads do"):
        kernel_of(s)


COMMIT = "on %warp 0 {\n          elect {\n            tcgen05.commit acc_full[0]"
PRODUCTS = "on %warpgroup.warp 0 {\n            elect {\n              mbarrier.wait ring_full"

FAULTS: dict[str, tuple[str, str, str]] = {
    "a commit by another thread than the products'": (
        COMMIT, COMMIT.replace("%warp 0", "%warp 1"), "tensor memory is loaded",
    ),
    "an arrival in the place of a commit": (
        COMMIT, COMMIT.replace("tcgen05.commit", "mbarrier.arrive"), "tensor memory is loaded",
    ),
    "sums that are not waited for": (
        "        mbarrier.wait acc_full[0], parity_tile\n", "", "a product overwrites",
    ),
    "no fence behind the wait for a sum": (
        "acc_full[0], parity_tile\n        tcgen05.fence after\n",
        "acc_full[0], parity_tile\n", "tensor memory is loaded",
    ),
    "no fence behind the wait for room": (
        "acc_empty[0], parity_tile\n        tcgen05.fence after\n",
        "acc_empty[0], parity_tile\n", "may still read",
    ),
    "no fence before room is given": (
        "        tcgen05.fence before\n        warp.sync\n", "        warp.sync\n",
        "may still read",
    ),
    "products by another thread than the commit's": (
        PRODUCTS, PRODUCTS.replace("warp 0", "warp 1"), "tensor memory is loaded",
    ),
    "operands given back by an arrival": (
        "tcgen05.commit ring_empty[stage_k]", "mbarrier.arrive ring_empty[stage_k]",
        "nothing orders the two",
    ),
}  # fmt: skip
"""What is broken, how, and what the machine says of it."""


@pytest.mark.sampled
@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault: str) -> None:
    old, new, why = FAULTS[fault]
    assert text().count(old) == 1
    broken, found = parse_kernel(text().replace(old, new)), []
    for seed in range(3):
        try:
            run(broken, 300, 72, 104, "random", seed)
        except MachineError as error:
            found.append(str(error))
    assert len(found) == 3, f"{3 - len(found)} of 3 runs are right"
    assert any(why in f for f in found), found
    assert not prove(broken).proved


@pytest.mark.parametrize(
    "without",
    ["            fence.proxy.async\n", "            mbarrier.wait ring_empty[0], parity_Ko\n"],
)
def test_faults_of_copies(without: str) -> None:
    """Threads copy what products read: through another proxy, and behind the product before."""
    made = rung(COPIED, "sm_100a")
    assert made.dump("kernel").count(without) == 1
    broken = parse_kernel(made.dump("kernel").replace(without, ""))
    assert not prove(broken).proved
    with pytest.raises((MachineError, AssertionError)):  # it sees what was there before
        ran(made, Problem(136, 72, 200, 1), 1, kernel=broken)
