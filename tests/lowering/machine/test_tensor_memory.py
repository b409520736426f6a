"""Tensor memory on the machine: right numbers in any order, and a fault for each rule."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lowering.ground.errors import InternalError
from lowering.kernel.descriptor import MatrixDescriptor
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.machine import DeadlockError, MachineError, run_kernel
from lowering.machine.adversary import Adversary, adversaries
from tests.blackwell import Tile, final

BF16 = ml_dtypes.bfloat16
SMALL = Tile(n=32, k=32, stages=2, by_tma=False)


@lru_cache
def kernel(tile: Tile) -> Kernel:
    return final(tile)


@lru_cache
def text(tile: Tile = SMALL) -> str:
    return print_kernel(kernel(tile))


def run(k: Kernel, m: int, n: int, depth: int, adversary: Adversary, seed: int = 0) -> None:
    """A matmul of integers on two CTAs, exact."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-2, 3, (rows, depth)).astype(BF16) for rows in (m, n))
    d = np.full((m, n), np.nan, BF16)
    tensors: dict[str, Any] = {"T0": a, "T1": b, "T5": d}
    extents = {"M": m, "N": n, "K": depth}
    run_kernel(k, tensors, extents, 2, seed=seed, adversary=adversary, races=True)
    wanted = (a.astype(np.float32) @ b.astype(np.float32).T).astype(BF16)
    np.testing.assert_array_equal(d.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ["eager", "lazy", "random", "fair"])
@pytest.mark.parametrize(
    "tile",
    [
        SMALL,
        Tile(),
        Tile(m=256, n=64, stages=2, sums=1),
        Tile(m=256, n=64, stages=2, groups=2, by_tma=False),
    ],
    ids=["registers", "tma", "two-blocks", "two-warpgroups"],
)
def test_right_in_any_order(tile: Tile, adversary: Adversary) -> None:
    run(kernel(tile), 300, 72, 104, adversary)


@pytest.mark.slow
def test_right_whatever_is_late() -> None:
    for adversary in adversaries(kernel(SMALL)):
        run(kernel(SMALL), 136, 72, 72, adversary)


LOAD = "t8_flying: frag<f32, 128x32, span 2, below 2, async> = tcgen05.ld T4[stage_tile2, 0, 0]"
WAIT = "t8_read: frag<f32, 128x32, span 2, below 2> = tcgen05.wait.ld t8_flying"

FAULTS: dict[str, tuple[str, str, str]] = {
    "no allocation": (
        "tcgen05.alloc cells[0, 0, 0], 64\n", "\n", "nobody has written it",
    ),
    "other columns": (
        "T4: f32[2][128x32] column 0", "T4: f32[2][128x32] column 32", "which are not allocated",
    ),
    "an address that is taken for 0": (
        "tcgen05.base cells_at", "tcgen05.base 0", "which are not allocated",
    ),
    "no address": ("tcgen05.base cells_at\n", "\n", "T4 is used before tcgen05.base"),
    "a number of columns that is no power of two": (
        "tcgen05.alloc cells[0, 0, 0], 64", "tcgen05.alloc cells[0, 0, 0], 96",
        "a power of two of columns from 32 to 512, not 96",
    ),
    "a leak": (
        "tcgen05.dealloc 64\n", "\n", "the CTA ends with 64 columns of tensor memory allocated",
    ),
    "a part is freed": (
        "tcgen05.dealloc 64", "tcgen05.dealloc 32", "32 columns from 448 on are no allocation",
    ),
    "an allocation behind relinquish": (
        "    tcgen05.relinquish\n",
        "    tcgen05.relinquish\n    tcgen05.alloc cells[0, 0, 0], 64\n",
        "tcgen05.alloc behind tcgen05.relinquish",
    ),
    "another quarter of the lanes": (
        LOAD, LOAD.replace("stage_tile2, 0, 0", "stage_tile2, 32, 0"),
        "lanes 32 .. 64 of tensor memory, warp 0 reaches 0 .. 32 only",
    ),
    "a column outside": (
        LOAD, LOAD.replace("stage_tile2, 0, 0", "stage_tile2, 0, 32"), "lies outside [2][128x32]",
    ),
    "no fence behind the wait for a sum": (
        "parity_tile2\n        tcgen05.fence after\n", "parity_tile2\n", "tensor memory is loaded",
    ),
    "a wait and a fence by one thread alone": (
        "mbarrier.wait acc_full[stage_tile2], parity_tile2\n        tcgen05.fence after\n",
        "elect { mbarrier.wait acc_full[stage_tile2], parity_tile2 tcgen05.fence after }\n",
        "tensor memory is loaded",
    ),
    "no fence behind the wait for a stage": (
        "mbarrier.wait acc_empty[stage_tile], parity_tile\n          tcgen05.fence after\n",
        "mbarrier.wait acc_empty[stage_tile], parity_tile\n", "may still read",
    ),
    "no fence before a stage is given back": (
        "        tcgen05.fence before\n        warp.sync\n", "        warp.sync\n",
        "may still read",
    ),
    "a load that is not waited for": (
        f"{WAIT}\n", "", "no value here",
    ),
    "a sum that nobody commits": (
        "            tcgen05.commit acc_full[stage_tile]\n",
        "            mbarrier.arrive acc_full[stage_tile]\n", "tensor memory is loaded",
    ),
    "a stage of operands given back by an arrival": (
        "tcgen05.commit ring_empty[stage_k]", "mbarrier.arrive ring_empty[stage_k]",
        "nothing orders the two",
    ),
    "no wait for an empty accumulator": (
        "          mbarrier.wait acc_empty[stage_tile], parity_tile\n", "",
        "an arrival counts for phase 1 of acc_empty",
    ),
    "no sync behind the allocation": (
        "  tcgen05.fence before\n  cta.sync\n  tcgen05.fence after\n  cells_at",
        "  tcgen05.fence before\n  tcgen05.fence after\n  cells_at",
        "cells[0, 0, 0] is read, but nobody has written it",
    ),
    "no fence in front of the end": (
        "  cta.sync\n  tcgen05.fence after\n  on %warp 0 {\n    tcgen05.dealloc",
        "  cta.sync\n  on %warp 0 {\n    tcgen05.dealloc",
        "tensor memory is freed, but in use by CTA 0, role epilogue",
    ),
    "products by 32 threads": (
        "          for k in 0 .. n_k",
        "          tcgen05.mma T4[stage_tile, 0, 0], T6[0, 0, 0], T7[0, 0, 0], 32\n"
        "          for k in 0 .. n_k",
        "tcgen05.mma is issued by 32 threads, not by one",
    ),
    "a product that begins in another lane": (
        "tcgen05.mma T4[stage_tile, 0, 0]", "tcgen05.mma T4[stage_tile, 32, 0]",
        "a product of 128 rows begins in lane 32",
    ),
    "a commit by 32 threads": (
        "          for k in 0 .. n_k", "          tcgen05.commit acc_full[stage_tile]\n"
        "          for k in 0 .. n_k",
        "tcgen05.commit is executed by 32 threads, not by one",
    ),
}  # fmt: skip
"""What is broken, how, and what the machine says of it."""


@pytest.mark.sampled
@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault: str) -> None:
    old, new, why = FAULTS[fault]
    assert text().count(old) >= 1, text()
    broken = text().replace(old, new, 1)
    if fault == "a load that is not waited for":
        broken = broken.replace("yield t8_read", "yield t8_flying")
        why = "is read before tcgen05.wait.ld"
    found = []
    for seed in range(3):
        try:
            run(parse_kernel(broken), 300, 72, 104, "random", seed)
        except MachineError as error:
            found.append(str(error))
    assert len(found) == 3, f"{3 - len(found)} of 3 runs are right"
    assert why and any(why in f for f in found), found


def relaxed(*statements: str) -> Kernel:
    """The kernel with these in a relaxed order."""
    found = text()
    for s in statements:
        assert found.count(f"{s}\n") == 1
        found = found.replace(f"{s}\n", f"{s}, order=relaxed.cluster\n")
    return parse_kernel(found)


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ["eager", "lazy", "random", "fair"])
def test_a_relaxed_order_tells_of_loads_and_not_of_sums(adversary: Adversary) -> None:
    """The wait for a load says that it has happened; sums are read by threads."""
    arrive = "mbarrier.arrive acc_empty[stage_tile2]"
    wait = "mbarrier.wait acc_empty[stage_tile], parity_tile"
    run(relaxed(arrive, wait), 300, 72, 104, adversary)
    with pytest.raises(MachineError, match="tensor memory is loaded"):
        run(relaxed("mbarrier.wait acc_full[stage_tile2], parity_tile2"), 300, 72, 104, adversary)


def test_a_gpu_without_tensor_memory() -> None:
    """Neither products nor cells are there."""
    elsewhere = text().replace(" target sm_100a", "")
    with pytest.raises(InternalError, match=r"wgmma has no tcgen05\.mma"):
        run(parse_kernel(elsewhere), 128, 32, 32, "eager")
    without = "\n".join(line for line in elsewhere.splitlines() if "tcgen05.mma" not in line)
    with pytest.raises(MachineError, match="a GPU without tensor memory"):
        run(parse_kernel(without), 128, 32, 32, "eager")


def test_a_descriptor_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """What wgmma reads tcgen05 does not."""
    made = MatrixDescriptor.at
    monkeypatch.setattr(MatrixDescriptor, "at", lambda of, address, version: made(of, address))
    with pytest.raises(MachineError, match="a descriptor of version 0, the instruction reads 1"):
        run(kernel(SMALL), 128, 32, 32, "eager")


def test_an_allocation_waits_for_room() -> None:
    """Two allocations of all columns by one CTA: the second waits for itself."""
    twice = text().replace(
        "tcgen05.alloc cells[0, 0, 0], 64\n    tcgen05.relinquish",
        "tcgen05.alloc cells[0, 0, 0], 512\n    tcgen05.alloc cells[0, 0, 0], 64",
    )
    with pytest.raises(DeadlockError, match="64 columns of tensor memory"):
        run(parse_kernel(twice), 128, 32, 32, "eager")


@pytest.mark.parametrize(
    ("warp", "lane", "found", "legal"),
    [
        (0, 32, "32 .. 64", "0 .. 32"),
        (1, 16, "48 .. 80", "32 .. 64"),
        (3, 1, "97 .. 129", "96 .. 128"),
    ],
)
def test_a_warp_reaches_its_quarter(warp: int, lane: int, found: str, legal: str) -> None:
    """Whatever is there: nobody has written to any of them."""
    text = f"""kernel k threads 128 cluster 1 target sm_100a grid 1 {{
      shared cells: s32[1][1x1] at 0
      tensor sums: f32[1][128x32] column 0
      on %warp 0 {{ tcgen05.alloc cells[0, 0, 0], 32 }}
      tcgen05.fence before cta.sync tcgen05.fence after
      at: i32 = ld.word cells[0, 0, 0]
      tcgen05.base at
      on %warp {warp} {{
        a: frag<f32, 128x32, span 2, below 2, async> = tcgen05.ld sums[0, {lane}, 0]
      }}
    }}"""
    with pytest.raises(MachineError) as error:
        run_kernel(parse_kernel(text), {}, {}, 1)
    assert error.value.what == f"lanes {found} of tensor memory, warp {warp} reaches {legal} only"
