"""Kernels with sums in tensor memory are proved, and broken ones are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.kernel.control import Roles
from lowering.kernel.text import parse_kernel
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from lowering.proof.tensor_memory import allocated
from tests.blackwell import Tile, final, plan
from tests.epilogues import RESIDUAL
from tests.lowering.machine.test_tensor_memory import FAULTS, text
from tests.schedule.matmul.test_tensor_memory import TILES
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.run.counts import admitted_by

OF_VALUES = {
    "a number of columns that is no power of two", "an address that is taken for 0",
    "another quarter of the lanes", "a column outside", "no fence before a stage is given back",
    "no wait for an empty accumulator",
}  # fmt: skip
"""Faults that are none of the protocol's, or that have a test of their own below."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "tile",
    [Tile(), Tile(by_tma=False), Tile(m=256, stages=3), Tile(m=256, stages=3, groups=2, sums=1)],
    ids=["tma", "registers", "two-blocks", "two-warpgroups"],
)
def test_proved(tile: Tile) -> None:
    proof = prove(final(tile), admitted_by(plan(tile)))
    assert proof.proved, proof


@pytest.mark.slow
@pytest.mark.parametrize("name", ["128x256", "queue"])
def test_an_epilogue_with_a_ring_of_its_own_is_proved(name: str) -> None:
    """Also where all its roles read which tile is next."""
    made = compile_fusion(import_fusion(RESIDUAL), TILES[name])
    proof = prove(made.kernel, admitted_by(made.plan))
    assert proof.proved, proof


@pytest.mark.sampled
@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in OF_VALUES])
def test_faults_are_not_proved(fault: str) -> None:
    old, new, _ = FAULTS[fault]
    broken = text().replace(old, new, 1)
    if fault == "a load that is not waited for":
        broken = broken.replace("yield t8_read", "yield t8_flying")
    assert not prove(parse_kernel(broken)).proved


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("        tcgen05.fence before\n        warp.sync\n", "        warp.sync\n",
         "is released without tcgen05.fence before behind its loads"),
        ("        tcgen05.fence before\n        warp.sync\n",
         "        tcgen05.fence before\n",
         "is released before all threads of the warp have read it"),
        ("tcgen05.commit acc_full[stage_tile]", "mbarrier.arrive acc_full[stage_tile]",
         "an arrival, no tcgen05.commit, tells of products"),
        ("tcgen05.commit ring_empty[stage_k]", "mbarrier.arrive ring_empty[stage_k]",
         "is released while products may read it"),
        ("mbarrier.wait acc_empty[stage_tile], parity_tile\n          tcgen05.fence after\n",
         "mbarrier.wait acc_empty[stage_tile], parity_tile\n",
         "no tcgen05.fence after behind the wait for the stage"),
        ("parity_tile2\n        tcgen05.fence after\n", "parity_tile2\n",
         "no tcgen05.fence after behind the wait for sums"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_fault(old: str, new: str, why: str) -> None:
    assert text().count(old) == 1
    proof = prove(parse_kernel(text().replace(old, new)))
    refuted = [o.why for o in proof.obligations if o.verdict is Verdict.REFUTED]
    assert any(why in w for w in refuted), proof


def test_columns_that_were_not_allocated() -> None:
    kernel = final(Tile())
    (sums,) = kernel.tensors
    wide = kernel.redeclare(replace(sums, column=64))
    found = {o.name: o for o in prove(wide).obligations}["tensor memory"]
    assert found.why == "128 columns are allocated, 128 freed, 192 used"


ALLOCATION = "  on %warp 0 {\n    tcgen05.alloc cells[0, 0, 0], 64\n    tcgen05.relinquish\n  }\n"


@pytest.mark.parametrize("behind", ["", "  cta.sync\n", "  cta.sync\n  tcgen05.fence after\n"])
def test_an_allocation_behind_what_tells_of_it(behind: str) -> None:
    right, behind = text(), f"  tcgen05.fence before\n{behind}"
    assert right.count(f"{ALLOCATION}{behind}") == 1
    late = parse_kernel(right.replace(f"{ALLOCATION}{behind}", f"{behind}{ALLOCATION}"))
    found = {o.name: o for o in prove(late).obligations}["tensor memory"]
    assert found.verdict is Verdict.REFUTED
    assert found.why == "the address is not read behind fence before, a sync and fence after"


def test_columns_that_are_freed_before_the_parts_are_not_allocated_for_them() -> None:
    kernel = parse_kernel(text())
    at = next(n for n, s in enumerate(kernel.body) if isinstance(s, Roles))
    body = (*kernel.body[:at], *kernel.body[at + 1 :], kernel.body[at])
    found = {o.name: o for o in prove(replace(kernel, body=body)).obligations}["tensor memory"]
    assert found.verdict is Verdict.REFUTED
    assert "fence before, a sync and fence after" in found.why
    (found,) = allocated(replace(kernel, body=body[:-1]))
    assert "the address is not read behind fence" in found.why  # without parts for none
