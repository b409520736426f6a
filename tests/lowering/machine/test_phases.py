"""Phases that only chance decides are faults, in whichever order they happen to be right."""

from __future__ import annotations

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.machine import MachineError, run_kernel
from lowering.machine.adversary import Order
from tests.mutants.edits import mutants
from tests.mutants.judge import Fate, Judge
from tests.mutants.subjects import subject

ORDERS: tuple[Order, ...] = ("eager", "lazy")


def kernel(body: str) -> Kernel:
    """Of two warps: warp 0 is behind the inits, and both behind a barrier."""
    return parse_kernel(f"""kernel k threads 64 cluster 1 grid 1 {{
      param n: i32
      mbarrier a[1] arrivals 1 at 0
      mbarrier b[1] arrivals 1 at 8
      named_barrier turn[1] id 1 threads 64
      on %warp 0 {{ elect {{ mbarrier.init a[0], 1 mbarrier.init b[0], 1 fence.mbarrier_init }} }}
      cta.sync
      {body}
    }}""")


def run(body: str, order: Order = "eager", races: bool = True) -> None:
    run_kernel(kernel(body), {}, {"n": 3}, 1, adversary=order, races=races)


def warps(zero: str, one: str) -> str:
    return f"on %warp 0 {{ {zero} }} on %warp 1 {{ {one} }}"


ARRIVE_A, ARRIVE_B = "elect { mbarrier.arrive a[0] }", "elect { mbarrier.arrive b[0] }"

RIGHT = {
    "to and fro": warps(
        f"{ARRIVE_A} mbarrier.wait b[0], 0 {ARRIVE_A} mbarrier.wait b[0], 1",
        f"mbarrier.wait a[0], 0 {ARRIVE_B} mbarrier.wait a[0], 1 {ARRIVE_B}",
    ),
    "turns": warps("bar.sync turn[0] bar.sync turn[0]", "bar.sync turn[0] bar.sync turn[0]"),
    "the phase before the first": warps(
        f"mbarrier.wait a[0], 1 {ARRIVE_B}", f"mbarrier.wait b[0], 0 {ARRIVE_A}"
    ),
}

BY_CHANCE = {
    "an arrival that nothing holds back": (
        warps(f"{ARRIVE_A} {ARRIVE_A}", "mbarrier.wait a[0], 1"),
        "an arrival counts for phase 1 of a[0] by chance: nothing orders it behind the end of "
        "phase 0",
    ),
    "a wait that an old phase ends": (
        warps(
            f"{ARRIVE_A} mbarrier.wait a[0], 0 {ARRIVE_A} mbarrier.wait a[0], 1 {ARRIVE_A}",
            "mbarrier.wait a[0], 0",
        ),
        "the wait is for phase 2 of a[0] by chance: nothing orders it behind the end of phase 1",
    ),
    "a phase that ends before all have seen the last": (
        warps(f"mbarrier.wait a[0], 1 {ARRIVE_A}", "mbarrier.wait a[0], 1"),
        "phase 0 of a[0] ends, and nothing orders that behind the wait of CTA 0, warp 1 for the "
        "phase before: mbarrier.wait a[0], 1",
    ),
    "a turn that may come twice": (
        warps("bar.arrive turn[0] bar.arrive turn[0]", "bar.sync turn[0] bar.sync turn[0]"),
        "an arrival counts for phase 1 of turn[0] by chance: nothing orders it behind the end of "
        "phase 0",
    ),
}
"""What two warps do, and the fault, in an order in which all of it goes well."""


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("order", ORDERS)
def test_no_alarm(name: str, order: Order) -> None:
    run(RIGHT[name], order)


@pytest.mark.parametrize("name", BY_CHANCE)
def test_chance_is_a_fault(name: str) -> None:
    body, why = BY_CHANCE[name]
    found = []
    for order in ("eager", "lazy", "fair"):
        try:
            run(body, order)
        except MachineError as error:
            found.append(error.what)
    assert why in found


@pytest.mark.parametrize("name", ["a turn of ping-pong", "the words of a queue"])
def test_of_kernels(name: str) -> None:
    """Broken kernels that lose nothing in these orders, and something in others."""
    of, what = {
        "a turn of ping-pong": ("cluster_pingpong", "bar.sync order[group] behind for k"),
        "the words of a queue": (
            "dynamic", "mbarrier.arrive queue_empty[stage_tile22] -> mbarrier.arrive queue_empty[0]"
        ),
    }[name]  # fmt: skip
    right = subject(of)
    *_, broken = (m for m in mutants(right.kernel) if m.what.startswith(what))
    for order in ORDERS:
        with pytest.raises(MachineError, match=r"by chance|nothing orders"):
            right.run(broken.kernel, 1, adversary=order, races=True)


@pytest.mark.slow
def test_what_passes_is_right_in_other_orders() -> None:
    """The claim, tried: kernels whose phases and accesses are ordered, held back in every place."""
    judge = Judge(subject("coop_1_stage"))
    kernel = judge.subject.kernel
    assert (judge.ran(kernel).fate, judge.others(kernel).fate) == (Fate.NEITHER, Fate.NEITHER)
