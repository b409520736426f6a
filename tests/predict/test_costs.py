"""What statements cost on an H200."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import InternalError
from lowering.ground.expr import Var
from lowering.kernel import nodes
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Let, Stmt
from lowering.kernel.visit import walk
from lowering.machine.clock import Slower
from tests.reductions import ALL
from tests.reductions import definition as reductions
from tests.schedules import SCHEDULES, definition
from wsched.choose.epilogue import WORK
from wsched.choose.step import FILL_BYTES
from wsched.front.sizes import DEFAULT, kernel_for
from wsched.predict.costs import (
    CONVERT,
    CROWDED,
    L2_LOADED,
    LATENCY,
    NUMBER,
    READ_LINE,
    STAMP,
    Hopper,
    Rates,
)
from wsched.schedule.matmul.params import CircularBufferOptions


def made(name: str) -> Kernel:
    return kernel_for(definition(), DEFAULT, 132, SCHEDULES[name]).kernel


def first(kernel: Kernel, kind: type[Stmt]) -> Stmt:
    return next(s for s in walk(kernel.body) if isinstance(s, kind))


@pytest.mark.parametrize(
    ("name", "cycles"),
    [("coop_128x256", 128), ("coop_128x64", 32), ("coop_narrow", 30), ("pingpong_128x128", 128)],
)
def test_a_wgmma(name: str, cycles: float) -> None:
    """4096 FLOP in a cycle, of 64 rows by 256 columns by 16 of K 128; at least 30 for 64 rows."""
    kernel = made(name)
    work = Hopper(kernel).work(first(kernel, nodes.Wgmma))
    assert (work.unit, work.quarter, work.cycles, work.latency) == ("tensor", True, cycles, 0.0)


def test_a_copy_takes_what_neighbours_leave_it() -> None:
    kernel = made("coop_128x256")
    load, size = first(kernel, nodes.TmaLoad), 128 * 64 * 2
    work = Hopper(kernel).work(load)
    assert (work.unit, work.cycles, work.latency) == ("copies", size / FILL_BYTES[True], LATENCY)
    assert Hopper(kernel, Rates(30.0, 100.0)).work(load).cycles == size / 30
    store = Hopper(kernel).work(first(kernel, nodes.TmaStore))
    assert (store.unit, store.latency) == ("stores", 64 * READ_LINE) and store.cycles > 0


def test_what_threads_load_comes_sooner_from_the_l2_too() -> None:
    assert (Rates().loaded, Rates.of_l2().loaded) == (LATENCY, L2_LOADED)
    assert L2_LOADED < LATENCY and Rates.of_l2().latency < LATENCY


def test_what_warps_are_busy_with() -> None:
    kernel = made("coop_128x256")
    cast = first(kernel, nodes.FragCast)
    assert isinstance(cast, nodes.FragCast)
    elements = cast.value.type.rows * cast.value.type.cols
    assert Hopper(kernel).busy(cast) == CONVERT / 2 * elements
    assert Hopper(kernel).busy(first(kernel, nodes.For)) == 0.0


def test_a_reduction_over_rows_is_dearer_than_one_over_columns() -> None:
    """It goes through lanes and warps; of an element three instructions, and two."""
    options = CircularBufferOptions(smem_circular_buffer_stage=3)
    params = replace(SCHEDULES["pingpong_128x128"], circular_buffer_options=options)
    kernel = kernel_for(reductions(ALL[:2]), DEFAULT, 132, params).kernel
    rows, columns = (first(kernel, x) for x in (nodes.FragReduceToShared, nodes.FragReduce))
    size, costs = 128 * 32, Hopper(kernel)
    assert (costs.busy(rows), costs.busy(columns)) == (WORK * 3 * size, WORK * 2 * size)
    assert all(costs.slower(s) is not None for s in (rows, columns))


def test_stamps_take_their_time_where_they_are_asked_for() -> None:
    kernel = kernel_for(definition(), DEFAULT, 132, SCHEDULES["coop_128x256"]).traced.kernel
    stamp = first(kernel, nodes.Stamp)
    assert Hopper(kernel).busy(stamp) == 0.0
    assert Hopper(kernel, stamped=True).busy(stamp) == STAMP


def test_what_takes_longer_beside_others() -> None:
    """Instructions on elements; and what is stored to shared memory gets of its 128 bytes in a
    cycle what wgmmas leave, which of 64 x 128 x 16 read 6 KiB in 64 cycles.
    """
    kernel = made("pingpong_128x128")
    cast, store = (first(kernel, kind) for kind in (nodes.FragCast, nodes.StMatrix))
    costs = Hopper(kernel)
    more = (CROWDED - 1) * costs.busy(cast)
    assert costs.slower(cast) == Slower("tensor", pytest.approx(more), pytest.approx(more))
    assert isinstance(store, nodes.StMatrix)
    size, found = store.value.type.rows * store.value.type.cols * 2, costs.slower(store)
    assert found is not None
    assert costs.busy(store) + found.cycles == pytest.approx(size / (128 - 6144 / 64))
    assert found.beside_warps == pytest.approx((CROWDED - 1) * costs.busy(store))
    assert costs.slower(first(kernel, nodes.MBarrierWait)) is None


def test_products_that_leave_nothing_of_shared_memory() -> None:
    """Of 64 x 64 x 16 they read 4 KiB in 32 cycles, which is all; a byte in a cycle is left."""
    kernel = made("coop_128x64")
    store, costs = first(kernel, nodes.StMatrix), Hopper(kernel)
    assert isinstance(store, nodes.StMatrix)
    found = costs.slower(store)
    assert found is not None
    size = store.value.type.rows * store.value.type.cols * 2
    assert costs.busy(store) + found.cycles == pytest.approx(size)


@pytest.mark.parametrize("name", ["coop_128x256", "stream_k", "cluster_2x1"])
def test_each_statement(name: str, golden: object) -> None:
    """Cycles that a warp is busy, how much longer beside others, and what goes on by itself."""
    kernel = made(name)
    costs, lines = Hopper(kernel), set[str]()
    for s in walk(kernel.body):
        slower = costs.slower(s)
        beside = "" if slower is None else f", beside {_cycles(slower.cycles, slower.beside_warps)}"
        try:
            work = costs.work(s)
            starts = f", {work.unit} {_cycles(work.cycles, work.latency)}"
        except InternalError:
            starts = ""
        if (cycles := costs.busy(s)) or beside or starts:
            lines.add(f"{s.OP}: {_cycles(cycles)}{beside}{starts}")
    assert "\n".join(sorted(lines)) == golden


def _cycles(*numbers: float) -> str:
    return " ".join(f"{n:.6g}" for n in numbers)


def test_numbers_are_reckoned_one_after_the_other() -> None:
    kernel = made("coop_128x256")
    n = Var("n")
    twice = Let(Var("x"), (n + 1) * (n + 1))
    assert Hopper(kernel).busy(twice) == 2 * NUMBER  # n + 1 once
    assert Hopper(kernel).busy(Let(Var("x"), n)) == 0.0


def test_what_starts_nothing() -> None:
    kernel = made("coop_128x256")
    with pytest.raises(InternalError, match=r"no cost of what wgmma.wait starts"):
        Hopper(kernel).work(first(kernel, nodes.WgmmaWait))
