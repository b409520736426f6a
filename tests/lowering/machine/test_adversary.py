"""The deterministic adversaries, on bugs that random orders are known to miss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Atom, BarSync, TmaLoad
from lowering.kernel.text import parse_kernel
from lowering.kernel.visit import walk
from lowering.machine import MachineError, run_kernel
from lowering.machine.adversary import (
    Adversary,
    Draws,
    HoldBack,
    Order,
    RunLast,
    adversaries,
    orders_of_draws,
)
from lowering.machine.scheduler import Effect, Runnable
from tests.lowering.machine.kernels import integers, matmul_text
from tests.mutants.edits import mutants
from tests.mutants.subjects import Subject, subject

SEVERAL = 1
"""The launch of several tiles for each CTA."""

BUGS = {
    "a dropped wait on the aux ring": (
        "coop_128x128-residual", "drop",
        "mbarrier.wait aux_full[stage_chunk], parity_chunk", "tma.load",
    ),
    "a dropped last cta.sync": ("coop_128x128-residual", "drop", "cta.sync", "ldmatrix"),
    "an index of queue_empty that is off": (
        "dynamic", "stage",
        "mbarrier.arrive queue_empty[stage_tile22] -> mbarrier.arrive queue_empty[0]", "ld.word",
    ),
}  # fmt: skip
"""Kernel, class and text of the edit, and the statement that has to be late for it to show."""


def planted(name: str, kind: str, what: str) -> tuple[Subject, Kernel]:
    right = subject(name)
    *_, broken = (m for m in mutants(right.kernel) if (m.kind, m.what) == (kind, what))
    return right, broken.kernel


def goes_wrong(right: Subject, kernel: Kernel, adversary: Adversary, seed: int = 0) -> bool:
    wanted, _ = right.run(right.kernel, SEVERAL, adversary="eager")
    try:
        found, _ = right.run(kernel, SEVERAL, adversary=adversary, seed=seed)
    except MachineError:
        return True
    return not all(np.array_equal(found[name], wanted[name]) for name in wanted)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("bug", BUGS)
def test_one_statement_that_is_late_shows_the_bug(bug: str) -> None:
    name, kind, what, late = BUGS[bug]
    right, kernel = planted(name, kind, what)
    held = [HoldBack(s) for s in walk(kernel.body) if late == s.OP]
    assert any(goes_wrong(right, kernel, each) for each in held)
    assert not any(goes_wrong(right, right.kernel, HoldBack(s))
                   for s in walk(right.kernel.body) if late == s.OP)  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("order", ["eager", "lazy"])
@pytest.mark.parametrize("bug", BUGS)
def test_a_watched_run_shows_the_bug_in_any_order(bug: str, order: Order) -> None:
    """Without anybody who knows which statement has to be late."""
    right, kernel = planted(*BUGS[bug][:3])
    with pytest.raises(MachineError):
        right.run(kernel, SEVERAL, adversary=order, races=True)


@pytest.mark.parametrize("barrier", ["mbarrier.arrive", "mbarrier.wait"])
def test_an_index_of_the_queue_that_is_off_by_one(barrier: str) -> None:
    right = subject("dynamic")
    broken = [
        m
        for m in mutants(right.kernel)
        if m.kind == "stage" and m.what.startswith(f"{barrier} queue_empty[") and "+ 1]" in m.what
    ]
    assert broken
    for each in broken:
        with pytest.raises(MachineError):
            right.run(each.kernel, SEVERAL, adversary="eager", races=True)


@pytest.mark.slow
def test_some_seeds_miss_it() -> None:
    """Why there are such adversaries: of six random orders none shows the wrong index."""
    right, kernel = planted(*BUGS["an index of queue_empty that is off"][:3])
    assert not any(goes_wrong(right, kernel, "random", seed) for seed in range(6))


def test_one_warp_that_is_late_shows_the_bug() -> None:
    """The warp that fills the queue waits for the wrong stage; it has to be far behind."""
    right, kernel = planted(
        "dynamic", "stage",
        "mbarrier.wait queue_empty[stage_entry], parity_entry -> "
        "mbarrier.wait queue_empty[0], parity_entry",
    )  # fmt: skip
    assert not goes_wrong(right, kernel, "eager")
    assert goes_wrong(right, kernel, RunLast(0, 9))
    assert not goes_wrong(right, right.kernel, RunLast(0, 9))


@dataclass
class Notes:
    """The warps that step and the copies that land, in order."""

    seen: list[Any] = field(default_factory=list)

    def stepped(self, warp: Runnable) -> None:
        self.seen.append(warp.index)

    def happened(self, effect: Effect) -> None:
        self.seen.append(effect.stmt)


def seen(kernel: Kernel, adversary: Adversary) -> list[Any]:
    notes = Notes()
    rng = np.random.default_rng(0)
    arrays = {"a": integers(rng, 256, 64), "b": integers(rng, 64, 64)}
    arrays["d"] = np.zeros((256, 64), np.uint16)
    run_kernel(kernel, arrays, {"M": 256, "N": 64, "K": 64}, 2, adversary=adversary,
               watch=lambda _: notes, first_only=True)  # fmt: skip
    return notes.seen


def test_a_statement_is_as_late_as_can_be() -> None:
    """Loads of B land when all warps wait; the others at once."""
    kernel = parse_kernel(matmul_text())
    a, b = (s for s in walk(kernel.body) if isinstance(s, TmaLoad))
    early, late = (seen(kernel, each) for each in (HoldBack(a), HoldBack(b)))
    assert early.index(a) > early.index(b)
    assert late.index(a) < late.index(b)
    assert set(late[: late.index(b)]) >= {0, *range(4, 12)}


def test_a_warp_is_last() -> None:
    """Once it runs no other can: all of them wait, or have ended."""
    kernel = parse_kernel(matmul_text())
    order = seen(kernel, RunLast(0, 5))
    assert order.index(5) > max(order.index(w) for w in range(12) if w != 5)


def test_all_of_a_kernel() -> None:
    """Each statement that matters once, each warp of each CTA once."""
    kernel = subject("cluster_2x1").kernel
    found = [*adversaries(kernel)]
    warps = [each for each in found if isinstance(each, RunLast)]
    held = [each.stmt for each in found if isinstance(each, HoldBack)]
    assert warps == [RunLast(rank, warp) for rank in (0, 1) for warp in range(12)]
    assert sum(isinstance(s, TmaLoad) for s in held) == 2
    assert any(isinstance(s, BarSync) for s in held)


def test_whose_turn_it_is() -> None:
    """As was chosen, then the first one's; how many waited is kept."""
    draws = Draws((2, 1))
    assert [draws.turn(n) for n in (3, 2, 4, 1)] == [2, 1, 0, 0]
    assert draws.widths == [3, 2, 4, 1]


def test_each_order_comes_once() -> None:
    """Also where a choice decides how many wait after it: one more than the numbers drawn so far
    leave, in three turns.
    """
    seen: list[tuple[int, ...]] = []

    def run(draws: Draws) -> None:
        made: list[int] = []
        for _ in range(3):
            made.append(draws.turn(1 + (sum(made) + 1) % 3))
        seen.append(tuple(made))

    def orders(made: tuple[int, ...]) -> list[tuple[int, ...]]:
        if len(made) == 3:
            return [made]
        return [o for n in range(1 + (sum(made) + 1) % 3) for o in orders((*made, n))]

    assert len([*orders_of_draws(run)]) == len(seen)
    assert sorted(seen) == orders(()) and len(seen) > 6


@pytest.mark.slow
def test_all_orders_of_draws() -> None:
    """Two CTAs draw from a counter, the first two numbers and one that ends each: each order of the
    draws comes once.
    """
    right, found = subject("dynamic"), []

    def run(draws: Draws) -> None:
        right.run(right.kernel, 2, adversary=draws)
        found.append(draws)

    assert [*orders_of_draws(run)] == found
    choices = {(*d.choices, *[0] * (len(d.widths) - len(d.choices))) for d in found}
    assert len(choices) == len(found) > 1
    assert len({len(d.widths) for d in found}) == 1


def test_additions_are_not_held_back() -> None:
    """Sums are the same in any order."""
    right = subject("stream_k")
    draws = Draws()
    right.run(right.kernel, 0, adversary=draws)
    adds = sum(isinstance(s, Atom) and s.op == "add" for s in walk(right.kernel.body))
    assert adds and len(draws.widths) < 8
