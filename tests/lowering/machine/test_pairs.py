"""Pairs of CTAs on the machine: right numbers in any order, and a fault for each rule."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import If, Stmt
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.visit import rewrite
from lowering.machine import DeadlockError, MachineError, run_kernel
from lowering.machine.adversary import Adversary, adversaries
from lowering.target.blackwell import BLACKWELL_PAIRS
from tests.blackwell import Tile
from tests.blackwell import final as by_hand
from tests.pairs import CLUSTERS, PAIRS, SMALL, final
from tests.tiers import dealt
from wsched.schedule.matmul.params import MatmulParams

BF16 = ml_dtypes.bfloat16

ADVERSARIES: tuple[Adversary, ...] = ("eager", "lazy", "random", "fair")


@lru_cache
def kernel(params: MatmulParams = SMALL) -> Kernel:
    return final(params)


def text() -> str:
    return print_kernel(kernel())


def run(k: Kernel, m: int, n: int, depth: int, adversary: Adversary, seed: int = 0) -> None:
    """A matmul of integers on two clusters, exact."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-2, 3, (rows, depth)).astype(BF16) for rows in (m, n))
    d = np.full((m, n), np.nan, BF16)
    tensors: dict[str, Any] = {"T0": a, "T1": b, "T5": d}
    extents = {"M": m, "N": n, "K": depth}
    run_kernel(k, tensors, extents, 2 * k.cluster, seed=seed, adversary=adversary, races=True)
    wanted = (a.astype(np.float32) @ b.astype(np.float32).T).astype(BF16)
    np.testing.assert_array_equal(d.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("name", ["registers", "tma", "two-blocks", "queue"])
def test_right_in_any_order(name: str, adversary: Adversary) -> None:
    run(kernel(PAIRS[name]), 392, 72, 104, adversary)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "adversary"), dealt(CLUSTERS, ADVERSARIES))
def test_what_a_cluster_shares_is_multicast(name: str, adversary: Adversary) -> None:
    """Of several tiles a cluster, the last ones of which some CTAs have nothing."""
    dims = CLUSTERS[name].cluster_dims
    run(kernel(CLUSTERS[name]), 128 * dims.m + 130, 64 * dims.n + 40, 136, adversary)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v9", "v10"])
def test_the_tiles_of_the_ladder(name: str) -> None:
    run(kernel(PAIRS[name]), 648, 264, 136, "random")


def test_a_schedule_by_hand() -> None:
    pair = Tile(k=32, stages=2, cluster=2, target=BLACKWELL_PAIRS, by_tma=False)
    run(by_hand(pair), 392, 72, 104, "random")


def test_sums_in_place_of_a_cluster() -> None:
    """One warp of those that read the sums tells all CTAs that load into its stages."""
    alone = Tile(k=32, stages=2, cluster=2, sums=0, by_tma=False)
    run(by_hand(alone), 392, 72, 104, "random")


def test_who_issues_nothing_follows_the_queue() -> None:
    """Entries that one reader leaves are never free."""
    whole = kernel(PAIRS["queue"])
    run(whole, 1544, 72, 40, "random")

    def led(stmt: Stmt) -> tuple[Stmt, ...] | None:
        return (replace(stmt, other=()),) if isinstance(stmt, If) and stmt.other else None

    with pytest.raises(DeadlockError, match="queue_empty"):
        run(replace(whole, body=rewrite(whole.body, led)), 1544, 72, 40, "random")


@pytest.mark.parametrize("shape", [(128, 32, 32), (1, 8, 8), (257, 40, 40)])
def test_tiles_of_which_one_cta_has_nothing(shape: tuple[int, int, int]) -> None:
    run(kernel(), *shape, "random")


@pytest.mark.slow
def test_right_whatever_is_late() -> None:
    for adversary in adversaries(kernel()):
        run(kernel(), 264, 40, 72, adversary)


SYNC = "  tcgen05.fence before\n  cluster.sync\n  tcgen05.fence after\n"
FREE = "  on %warp 0 {\n    tcgen05.dealloc 64\n  }\n"
LEADS = "if %cluster.ctarank == 0 {"

FAULTS: dict[str, tuple[str, str, str]] = {
    "operands given back to one CTA": (
        "tcgen05.commit ring_empty[stage_k], multicast=3", "tcgen05.commit ring_empty[stage_k]",
        "mbarrier.wait ring_empty",
    ),
    "sums told to one CTA": (
        "tcgen05.commit acc_full[stage_tile], multicast=3", "tcgen05.commit acc_full[stage_tile]",
        "mbarrier.wait acc_full",
    ),
    "a mask of a CTA that is not there": (
        "tcgen05.commit acc_full[stage_tile], multicast=3",
        "tcgen05.commit acc_full[stage_tile], multicast=7",
        "multicast mask 0b111 for a cluster of 2",
    ),
    "loads told of at a CTA's own barrier": (
        "bar=ring_full[stage_k2], cta_group=2\n", "bar=ring_full[stage_k2]\n",
        "bytes",
    ),
    "bytes of one CTA": (
        "bytes=step_bytes", "bytes=min(M, 128) * 64 + min(N, 16) * 64",
        "bytes more than announced landed on ring_full",
    ),
    "bytes announced by both": (
        f"{LEADS}\n                mbarrier.expect_tx",
        "if 0 <= %cluster.ctarank {\n                mbarrier.expect_tx",
        "ring_full",
    ),
    "a product of the odd CTA": (
        f"        {LEADS}\n          for tile in",
        "        if %cluster.ctarank == 1 {\n          elect {\n"
        "            tcgen05.mma T4[0, 0, 0], T6[0, 0, 0], T7[0, 0, 0], 32\n"
        "          }\n        }\n"
        f"        {LEADS}\n          for tile in", "is issued by the odd CTA of a pair",
    ),
    "products by both": (
        f"        {LEADS}\n          for tile in", "        if 0 <= %cluster.ctarank {\n"
        "          for tile in", "deadlock",
    ),
    "sums given back at a CTA's own barrier": (
        "mbarrier.arrive acc_empty[stage_tile2], cta=0, order=release.cluster",
        "mbarrier.arrive acc_empty[stage_tile2]",
        "acc_empty[0] parity 1: phase 1 lacks 4 of 8 arrivals",
    ),
    "a wait of one CTA's scope": (
        "mbarrier.wait acc_full[stage_tile2], parity_tile2, order=acquire.cluster",
        "mbarrier.wait acc_full[stage_tile2], parity_tile2",
        "peers arrive at acc_full",
    ),
    "a relaxed wait for sums": (
        "mbarrier.wait acc_full[stage_tile2], parity_tile2, order=acquire.cluster",
        "mbarrier.wait acc_full[stage_tile2], parity_tile2, order=relaxed.cluster",
        "tensor memory is loaded",
    ),
    "a wait of one CTA's scope for operands": (
        "mbarrier.wait ring_full[stage_k], parity_k, order=acquire.cluster",
        "mbarrier.wait ring_full[stage_k], parity_k", "peers arrive at ring_full",
    ),
    "mixed groups": (" cta_group 2 grid", " grid", "cta_group 2 in a kernel with cta_group 1"),
    "an allocation by one CTA": (
        "tcgen05.alloc cells[0, 0, 0], 64\n",
        "if %cluster.ctarank == 0 {\n      tcgen05.alloc cells[0, 0, 0], 64\n    }\n",
        "64 columns of tensor memory",
    ),
    "allocations that differ": (
        "tcgen05.alloc cells[0, 0, 0], 64\n",
        "if %cluster.ctarank == 0 {\n      tcgen05.alloc cells[0, 0, 0], 64\n    } else {\n"
        "      tcgen05.alloc cells[0, 0, 0], 128\n    }\n",
        "CTAs of a pair allocate 64 and 128 columns",
    ),
    "a CTA leaves before its peer has freed": (
        FREE + "  cluster.sync\n", FREE,
        "nothing orders that behind tcgen05.dealloc of the other one of its pair",
    ),
    "cells freed while the leader multiplies": (
        "  roles {\n", "  if %cluster.ctarank == 1 {\n    on %warp 0 {\n      tcgen05.dealloc 64\n"
        "    }\n  }\n  roles {\n", "which are not allocated",
    ),
    "an allocation that the peer does not wait for": (
        SYNC, SYNC.replace("cluster.sync", "cta.sync"),
        "acc_empty[0] is arrived at, but nothing orders that behind its init",
    ),
    "a peer that is gone": (
        f"{SYNC}{FREE}  cluster.sync\n", f"{SYNC}{FREE}".replace("cluster.sync", "cta.sync"),
        "is invalidated, but nothing orders that behind what CTA",
    ),
}  # fmt: skip
"""What is broken, how, and what the machine says of it."""


@pytest.mark.sampled
@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault: str) -> None:
    old, new, why = FAULTS[fault]
    assert text().count(old) >= 1, text()
    broken = parse_kernel(text().replace(old, new))
    found = []
    for seed in range(3):
        try:
            run(broken, 392, 72, 104, "random", seed)
        except MachineError as error:
            found.append(str(error))
    assert len(found) == 3, f"{3 - len(found)} of 3 runs are right"
    assert why and any(why in f for f in found), found
