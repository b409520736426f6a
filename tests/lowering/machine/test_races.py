"""Races: two accesses that nothing orders are a fault in any order, with both of them named."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.machine import MachineError, run_kernel
from lowering.machine.adversary import Order
from tests.lowering.machine.kernels import matmul_text, run_matmul

ORDERS: tuple[Order, ...] = ("eager", "lazy", "random", "fair")

LOAD = (
    "CTA 0, role load, group 0, warp 0 at "
    "`tma.load a_s[stage, 0, 0], a[tile % rows * 128, k * 64], bar=full[stage]`"
)

RACES = {
    "no wait for the bytes": (
        ("          mbarrier.wait full[stage2], parity2\n", ""),
        f"a_s[0] (byte 0) of CTA 0 is read, and written by {LOAD}; "
        "nothing orders the two: full[0] would tell of the first",
    ),
    "no wait for the stage": (
        ("            mbarrier.wait empty[stage], parity ^ 1\n", ""),
        "an arrival counts for phase 1 of full[0] by chance: nothing orders it behind the end of "
        "phase 0",
    ),
    "release before the wgmmas are done": (
        (
            "          sum: frag<f32, 64x64> = wgmma.wait acc4, 0\n"
            "          elect { mbarrier.arrive empty[stage2] }\n",
            "          elect { mbarrier.arrive empty[stage2] }\n"
            "          sum: frag<f32, 64x64> = wgmma.wait acc4, 0\n",
        ),
        "a_s[0] (byte 0) of CTA 0 is written, and read by CTA 0, role compute, group 0, warp 4 "
        "at `acc1: frag<f32, 64x64, async> = wgmma acc0, a_s[stage2, g * 64, 0], "
        "b_s[stage2, 0, 0]`; nothing orders the two: empty[1] would tell of the first",
    ),
    "no barrier between fence and store": (
        ("fence.proxy.async\n        bar.sync store[g]\n", "fence.proxy.async\n"),
        "d_s[0] (byte 6144) of CTA 0 is read, and written by CTA 0, role compute, group 0, warp 7 "
        "at `stmatrix d_s[g, 0, 0], chunk0`; nothing orders the two: "
        "no barrier tells of the first yet",
    ),
    "the store's reads are not waited for": (
        ("bulk.wait 0, read=true", ""),
        "d_s[0] (byte 4096) of CTA 0 is written, and read by CTA 0, role compute, group 0, warp 4 "
        "at `tma.store d[row, col + 0], d_s[g, 0, 0]`; nothing orders the two: "
        "no barrier tells of the first yet",
    ),
    "no sync in front of the end": (
        ("  cta.sync\n  on %warp 0 { elect {\n    for s2", "  on %warp 0 { elect {\n    for s2"),
        "full[0] is invalidated, but nothing orders that behind what CTA 0, role compute, group 0, "
        "warp 4 did with it at `mbarrier.wait full[stage2], parity2`",
    ),
}
"""An edit, and the race that it makes where effects are early."""


def run(edit: tuple[str, str], adversary: Order, races: bool) -> bool:
    text = matmul_text()
    assert edit[0] in text
    text = text.replace(*edit)
    return run_matmul(text, 256, 200, 200, adversary=adversary, races=races)[0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("adversary", ORDERS)
def test_no_alarm(adversary: Order) -> None:
    assert run(("", ""), adversary, races=True)


@pytest.mark.parametrize("name", RACES)
def test_both_accesses_and_the_edge_are_named(name: str) -> None:
    edit, message = RACES[name]
    with pytest.raises(MachineError) as error:
        run(edit, "eager", races=True)
    assert error.value.what == message


@pytest.mark.parametrize("name", RACES)
@pytest.mark.parametrize("adversary", ORDERS)
def test_any_order_shows_it(name: str, adversary: Order) -> None:
    """No luck is needed: each is a fault in the first order that is tried, whichever that is."""
    with pytest.raises(MachineError):
        run(RACES[name][0], adversary, races=True)


STORED = """kernel stored threads 128 cluster 1 grid 1 {
  tensormap d: f32[128, 8] box 64x8
  shared tile: f32[2][64x8] at 0
  ones: frag<f32, 64x8> = frag.fill 1.0
  st.shared tile[0, 0, 0], ones
  st.shared tile[1, 0, 0], ones
  fence.proxy.async
  cta.sync
  on %warp 0 { elect {
    tma.store d[0, 0], tile[0, 0, 0]
    bulk.commit
    tma.store d[64, 0], tile[1, 0, 0]
    bulk.commit
    WAIT
  } }
  cta.sync
  st.shared tile[STAGE, 0, 0], ones
  on %warp 0 { elect { bulk.wait 0 } }
}"""


@pytest.mark.parametrize("read", ["", ", read=true"])
@pytest.mark.parametrize("adversary", ORDERS)
@pytest.mark.parametrize("pending", range(4))
@pytest.mark.parametrize("stage", [0, 1])
def test_a_wait_is_for_all_stores_but_the_last_groups(
    stage: int, pending: int, adversary: Order, read: str
) -> None:
    """Of as many as it leaves pending, nobody knows whether they have read what is written anew."""
    text = STORED.replace("WAIT", f"bulk.wait {pending}{read}").replace("STAGE", str(stage))
    d = np.zeros((128, 8), np.float32)
    early = pending > 1 - stage
    with pytest.raises(MachineError, match="nothing orders") if early else nullcontext():
        run_kernel(parse_kernel(text), {"d": d}, {}, 1, adversary=adversary, races=True)
    assert early or (d == 1).all()


THREADS = """kernel threads threads 128 cluster 1 grid 1 {
  shared wide: f32[1][128x8] at 0
  shared half: bf16[1][128x8] at 4096
  ones: frag<f32, 64x8> = frag.fill 1.0
  halves: frag<bf16, 64x8> = frag.cast ones
  st.shared wide[0, 0, 0], ones
  stmatrix half[0, 0, 0], halves
  cta.sync
  on %warp 1 { FIRST }
  SYNC
  on %warp 0 { SECOND }
}"""
_ACCESSES = {
    "st.shared": "st.shared wide[0, ROW, 0], ones",
    "ld.shared": "NAME: frag<f32, 64x8> = ld.shared wide[0, ROW, 0]",
    "stmatrix": "stmatrix half[0, ROW, 0], halves",
    "ldmatrix": "NAME: frag<bf16, 64x8> = ldmatrix half[0, ROW, 0]",
}


def in_turn(first: str, second: str, between: str = "") -> Kernel:
    """An access by warp 1 and one by warp 0, whose rows from row 16 on are those of warp 1."""
    text = THREADS.replace("FIRST", _ACCESSES[first].replace("ROW", "0").replace("NAME", "x"))
    text = text.replace("SECOND", _ACCESSES[second].replace("ROW", "16").replace("NAME", "y"))
    return parse_kernel(text.replace("SYNC", between))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("st.shared", "st.shared"), ("st.shared", "ld.shared"), ("ld.shared", "st.shared"),
        ("stmatrix", "stmatrix"), ("stmatrix", "ldmatrix"), ("ldmatrix", "stmatrix"),
    ],
)  # fmt: skip
def test_threads_that_nothing_orders(first: str, second: str) -> None:
    run_kernel(in_turn(first, second, "cta.sync"), {}, {}, 1, races=True)
    for adversary in ORDERS:
        with pytest.raises(MachineError, match="nothing orders the two"):
            run_kernel(in_turn(first, second), {}, {}, 1, adversary=adversary, races=True)


@pytest.mark.parametrize("read", ["ld.shared", "ldmatrix"])
def test_reads_are_in_no_order(read: str) -> None:
    run_kernel(in_turn(read, read), {}, {}, 1, races=True)


@pytest.mark.parametrize("name", ["the store's reads are not waited for"])
def test_a_right_number_by_chance(name: str) -> None:
    """What the watch is there for: in this order nothing else sees anything."""
    assert run(RACES[name][0], "eager", races=False)
