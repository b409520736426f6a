"""The machine with a clock: what takes how long, who waits, and the same results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from lowering.kernel import nodes
from lowering.kernel.nodes import Stmt
from lowering.kernel.text import parse_kernel
from lowering.machine.blank import blank_arguments
from lowering.machine.clock import Slower, Work
from lowering.machine.errors import DeadlockError
from lowering.machine.run import RunResult, run_kernel
from tests.on_machine import NUMPY, operands
from tests.on_machine import Problem as Sizes
from tests.rungs import kernel, ran
from tests.schedules import SCHEDULES, cooperative, definition, split_k
from wsched.front.sizes import Extents, kernel_for
from wsched.trace.stamps import decode

STEPS = 5
TILE = Sizes(128, 128, 64 * STEPS, 1)


@dataclass(frozen=True, slots=True)
class Prices:
    """Costs of some statements; all others are free."""

    latency: float = 0.0
    copy: float = 0.0
    product: float = 0.0
    cast: float = 0.0
    crowded: Slower | None = None

    def busy(self, stmt: Stmt) -> float:
        """What a warp does."""
        return self.cast if isinstance(stmt, nodes.FragCast) else 0.0

    def slower(self, stmt: Stmt) -> Slower | None:
        """What takes longer beside others."""
        return self.crowded if isinstance(stmt, nodes.FragCast) else None

    def work(self, stmt: Stmt) -> Work:
        """What goes on by itself."""
        if isinstance(stmt, nodes.TmaLoad):
            return Work("copies", False, self.copy, self.latency)
        if isinstance(stmt, nodes.Wgmma):
            return Work("tensor", True, self.product, 0.0)
        return Work("stores", False, 0.0, 0.0)


def run(rung: int, prices: Prices, sizes: Sizes = TILE, together: int = 1) -> RunResult:
    return ran(kernel(rung), sizes, rung, prices, together)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rung", [1, 4, 5, 8, 10])
def test_results_are_those_of_any_order(rung: int) -> None:
    sizes = Sizes(520, 136, 200, 2)
    assert run(rung, Prices(1000.0, 30.0, 64.0, 100.0), sizes).cycles > 0


def test_nothing_costs_nothing() -> None:
    found = run(4, Prices())
    assert (found.cycles, found.stretches) == (0.0, ())


def test_a_slice_is_waited_for_where_nothing_is_ahead() -> None:
    """Both copies of a slice fly at the same time, the next slice when it has been multiplied."""
    assert run(4, Prices(latency=1000.0)).cycles == 1000 * STEPS


def test_copies_of_an_sm_come_one_after_the_other() -> None:
    assert run(4, Prices(copy=100.0)).cycles == 2 * 100 * STEPS


def test_a_stage_ahead_hides_what_is_shorter_than_a_product() -> None:
    """64 of K are four products of 128 rows: only the first slice is waited for."""
    assert run(5, Prices(latency=300.0, product=100.0)).cycles == 300 + 4 * 100 * STEPS
    assert run(4, Prices(latency=300.0, product=100.0)).cycles == (300 + 4 * 100) * STEPS


def test_two_stages_are_two_loads_in_flight() -> None:
    assert run(5, Prices(latency=1000.0)).cycles == 1000 * (STEPS + 1) // 2


def test_warps_of_a_quarter_share_its_tensor_core() -> None:
    """Two warpgroups take twice as long as one, for twice as many rows."""
    one, two = (run(n, Prices(product=100.0), Sizes(m, 128, 64 * STEPS, 2)).cycles
                for n, m in ((8, 128), (10, 512)))  # fmt: skip
    assert (one, two) == (4 * 100 * STEPS, 2 * 4 * 100 * STEPS)


def test_ctas_that_run_together_share_an_sm() -> None:
    """Its tensor cores, so that products take as long; one CTA's waits are hidden by the other."""
    sizes = Sizes(128, 256, 64 * STEPS, 1)
    products, waits = Prices(product=100.0), Prices(latency=1000.0)
    assert [run(4, products, sizes, n).cycles for n in (1, 2)] == [2 * 4 * 100 * STEPS] * 2
    assert [run(4, waits, sizes, n).cycles for n in (1, 2)] == [2000 * STEPS, 1000 * STEPS]


def test_ctas_that_nobody_says_run_together_have_an_sm_each() -> None:
    """Those of a kernel whose CTAs share counters all run at once, and products of none wait."""
    parted = kernel_for(definition(), Extents(128, 128, 128), 4, split_k(cooperative(128, 128), 2))
    extents = {"M": 128, "N": 128, "K": 128}
    arguments = blank_arguments(parted.kernel, extents, parted.grid(extents, 4))
    assert parted.kernel.ctas(parted.grid(extents, 4), extents) == 2
    costs = Prices(product=1000.0)
    apart, shared = (
        run_kernel(parted.kernel, arguments, extents, parted.grid(extents, 4), adversary=costs,
                   resident=n)
        for n in (None, 2)
    )  # fmt: skip
    assert (apart.cycles, shared.cycles) == (8 * 1000.0, 16 * 1000.0)


def test_stamps_have_the_time_of_the_clock() -> None:
    """Not the steps of warps: the loop of products is as long as these."""
    traced = kernel(4).traced.kernel
    extents = {"M": 128, "N": 128, "K": 64 * STEPS}
    arguments = blank_arguments(traced, extents, 1)
    run_kernel(traced, arguments, extents, 1, adversary=Prices(product=100.0), resident=1)
    spans = decode(traced, arguments[traced.traces[0].name], on_machine=True).spans
    assert {s.end - s.begin for s in spans if s.name == "main_loop"} == {4 * 100.0 * STEPS}


def test_waits_and_work_are_noted() -> None:
    found = run(4, Prices(latency=1000.0, cast=50.0))
    mine = [s for s in found.stretches if s.warp == 0]
    waited = [s for s in mine if s.waits]
    assert {s.stmt.OP for s in waited} == {"mbarrier.wait"}
    assert sum(s.end - s.begin for s in waited) == 1000 * STEPS
    assert [(s.stmt.OP, s.end - s.begin) for s in mine if not s.waits] == [("frag.cast", 50.0)] * 2
    assert {(s.cta, s.role, s.group) for s in mine} == {(0, "compute", 0)}
    assert found.cycles == 1000 * STEPS + 2 * 50


def test_what_takes_longer_beside_others() -> None:
    """Beside a warp of the quarter that executes, too, and beside products of others; not alone."""
    crowd = Slower("tensor", 1000.0, 30.0)
    alone, crowded = (
        [run(n, Prices(cast=50.0, crowded=x), Sizes(m, 128, 64 * STEPS, 2)).cycles
         for x in (None, crowd)]
        for n, m in ((8, 128), (10, 512))
    )  # fmt: skip
    assert alone == [2 * 50, 2 * 50]
    assert crowded[0] == 2 * 50 and crowded[0] + 30 <= crowded[1] <= crowded[0] + 2 * 30
    ping_pong = SCHEDULES["pingpong_128x128"]
    turns = kernel_for(definition(), Extents(128, 512, 128), 1, ping_pong).kernel
    extents = {"M": 128, "N": 512, "K": 128}
    found = [
        run_kernel(turns, blank_arguments(turns, extents, 1), extents, 1, resident=1,
                   adversary=Prices(product=100.0, cast=50.0, crowded=x)).cycles
        for x in (None, Slower("tensor", 1000.0, 0.0), Slower("nothing", 1000.0, 0.0))
    ]  # fmt: skip
    assert found[0] == found[2] < found[1] - 1000


def test_a_kernel_that_hangs_is_still_named() -> None:
    """The clock changes who runs when, not what is checked."""
    text = kernel(4).dump("kernel")
    broken = parse_kernel(text.replace("mbarrier.wait ring_full[0], parity_Ko",
                                       "mbarrier.wait ring_full[0], parity_Ko ^ 1"))  # fmt: skip
    a, b = operands(TILE, "bf16", 1, integer=True)
    d = np.zeros((128, 128), NUMPY["bf16"])
    with pytest.raises(DeadlockError, match="ring_full"):
        run_kernel(
            broken, {"T0": a, "T1": b, "T5": d}, {"M": 128, "N": 128, "K": TILE.k}, 1,
            adversary=Prices(),
        )  # fmt: skip
