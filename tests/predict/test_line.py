"""Time lines of kernels that no GPU has run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import log
from statistics import median

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.target.targets import named
from tests.choose.test_cost_model import DATA, params_of
from tests.grouped import FORMS, grouped
from tests.schedules import QUICK, SCHEDULES, cooperative, definition
from wsched.choose.cost_model import GHZ, slowed, terms_of
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents, kernel_for
from wsched.ladder.climb import climb
from wsched.predict.costs import STAMP, Rates
from wsched.predict.line import Predicted, beside, predicted, rates_of
from wsched.schedule.matmul.params import (
    MatmulParams,
    SupportedVectorization,
    TilingStrategy,
)

TRACED = Extents(2048, 2048, 1024)


def line(params: MatmulParams, extents: Extents = TRACED, stamped: bool = False) -> Predicted:
    kernel = kernel_for(definition(), extents, 132, params)
    return predicted(kernel, extents, extents.problem(kernel.fusion, 132), stamped=stamped)


def test_ping_pong() -> None:
    """Turns follow each other, an epilogue lies under the other group's main loop; in ns."""
    found = line(SCHEDULES["pingpong_128x128"], Extents(2048, 4096, 1024))
    trace = found.trace
    assert trace.unit == "ns" and trace.dropped == 0
    assert trace.about == f"predicted at {GHZ} GHz: CTA 0 of 132, on an SM"
    assert {s.cta for s in trace.spans} == {0}
    assert max(s.end for s in trace.spans) == pytest.approx(found.cycles / GHZ, rel=0.02)
    loops = sorted((s for s in trace.spans if s.name == "main_loop" and s.warp % 4 == 0),
                   key=lambda s: s.begin)  # fmt: skip
    assert [s.tile for s in loops] == [0, 1, 2, 3]
    products = 16 * 512 / GHZ  # of a tile: 16 steps of 128 x 128 x 64
    assert all(products < s.end - s.begin < 1.3 * products for s in loops)
    assert all(a.end <= b.begin + 1 for a, b in pairwise(loops))
    overlap = trace.epilogue_overlap()
    assert overlap is not None and overlap > 0.7


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(QUICK))
def test_each_kind_of_schedule_has_one(name: str) -> None:
    """Whatever a kernel does has a cost, and the tensor core is a lower bound."""
    small = Extents(512, 512, 256)
    found = line(SCHEDULES[name], small)
    assert {"main_loop", "cta"} <= {s.name for s in found.trace.spans}
    assert found.cycles > 500 and found.trace.dropped == 0
    assert {x.name.partition("[")[0] for x in found.lanes} >= {"compute"}


def test_stamps_take_their_time_beside_a_recorded_line() -> None:
    """Of a tile those of a main loop, of an epilogue and of its waits; alone they are free."""
    free, paid = (line(SCHEDULES["coop_128x256"], Extents(512, 512, 256), x) for x in (False, True))
    assert free.cycles + 8 * STAMP < paid.cycles < free.cycles + 32 * STAMP


@pytest.mark.slow
def test_it_is_told_again_alike() -> None:
    assert line(SCHEDULES["cluster_2x1"]) == line(SCHEDULES["cluster_2x1"])


def test_copies_take_what_the_model_says() -> None:
    """Rows of 16 bytes come at half the rate, and weights of few rows no faster than memory."""
    kernel = kernel_for(definition(), TRACED, 132, SCHEDULES["coop_128x256"])
    aligned, odd = (e.problem(kernel.fusion, 132)
                    for e in (TRACED, Extents(2048, 2048, 1000)))  # fmt: skip
    assert odd.align_a == 16
    rates = rates_of(kernel, aligned), rates_of(kernel, odd)
    assert rates[0].fill == pytest.approx(60) and rates[1].fill < 0.6 * rates[0].fill
    few = Extents(16, 28672, 8192).problem(kernel.fusion, 132)
    assert rates_of(kernel, few).fill < 0.9 * rates[0].fill
    own = climb()[3].kernel
    assert rates_of(own, aligned) == Rates.of_l2()


@pytest.mark.parametrize("transposed", [False, True])
def test_copies_of_a_transposed_product(transposed: bool) -> None:
    """Stages are those of the product that is computed, here of one A with two of B."""
    params = replace(cooperative(256, 64), exchange_operands=transposed)
    kernel = kernel_for(definition(), TRACED, 132, params)
    gated = replace(TRACED.problem(kernel.fusion, 132), b_count=2)
    asked = gated.exchanged if transposed else gated
    assert rates_of(kernel, asked).fill == pytest.approx(60)


def test_copies_come_sooner_from_the_l2() -> None:
    """Where operands and result fit in; at any clock of the SMs as many bytes in a nanosecond."""
    kernel = climb()[3].kernel
    small, large = (
        rates_of(kernel, Extents.parse(f"{n}x{n}x{n}").problem(kernel.fusion, 132))
        for n in (2048, 4096)
    )
    assert large == Rates() and small == Rates.of_l2() and small.latency < large.latency / 2
    slow = rates_of(kernel, TRACED.problem(kernel.fusion, 132), GHZ / 2)
    assert slow.fill == 2 * small.fill and slow.latency == small.latency


def test_beside_a_launch_its_clock_is_taken() -> None:
    kernel = kernel_for(definition(), TRACED, 132, SCHEDULES["coop_128x256"])
    problem = TRACED.problem(kernel.fusion, 132)
    slow, fast = (predicted(kernel, TRACED, problem, stamped=True, ghz=g).trace for g in (1.5, GHZ))
    assert (slow.ghz, fast.ghz) == (1.5, GHZ) and slow.about.startswith("predicted at 1.5 GHz")
    found = beside(kernel, TRACED, problem, slow)
    assert found.predicted == slow and not any(p.difference for p in found.phases)
    assert beside(kernel, TRACED, problem, replace(slow, ghz=0.0)).predicted == fast
    loops = [next(s.end - s.begin for s in t.spans if s.name == "main_loop") for t in (slow, fast)]
    assert loops[0] / loops[1] == pytest.approx(GHZ / 1.5, rel=0.02)


@pytest.mark.parametrize(
    ("form", "extents", "tiles"),
    [
        ("rows", Extents(4096, 2048, 512, batch=8), 4 * 32),
        ("columns", Extents(2048, 4096, 512, batch=8), 16 * 8),
        ("sums", Extents(1024, 512, 4096, batch=8), 8 * 8),
    ],
)
def test_groups_are_as_long_as_each_other(form: str, extents: Extents, tiles: int) -> None:
    """Of eight groups' tiles of 128x64 the first CTA has every 132nd, each of all steps of K."""
    params = replace(
        cooperative(128, 64),
        tiling_strategy=TilingStrategy.DistributeTilesDynamically,
        use_smem_epilogue=form != "columns",
        supported_vec_size=SupportedVectorization(1 if form == "columns" else 2),
    )
    kernel = kernel_for(grouped(ranks=FORMS[form]), extents, 132, params)
    found = predicted(kernel, extents, extents.problem(kernel.fusion, 132))
    loops = [s for s in found.trace.spans if s.name == "main_loop" and s.warp == 0]
    assert len(loops) == -(-8 * tiles // 132)
    products = 8 * 256 / GHZ  # of a tile: 8 steps of 128 x 64 x 64
    assert all(products < s.end - s.begin < 2 * products for s in loops)


def test_what_has_none() -> None:
    kernel = kernel_for(definition(), TRACED, 132, target=named("sm_100a"))
    with pytest.raises(UnsupportedError, match="a time line for sm_100a is not supported"):
        predicted(kernel, TRACED, TRACED.problem(kernel.fusion, 132))


@pytest.mark.slow
def test_times_of_warp_specialized_kernels() -> None:
    """Every 80th of those that an H200 measured and that are short enough; nothing was fitted."""
    found = []
    for shape, name, measured in list(short())[::80]:
        extents, params = Extents.parse(shape), params_of(name)
        kernel = kernel_for(definition(), extents, 132, params)
        problem = extents.problem(kernel.fusion, 132)
        terms = terms_of(problem, params)
        alone = predicted(kernel, extents, problem).cycles / GHZ / 1e3
        us = terms.launch + alone * slowed(alone, terms.moved, terms.energy)
        found.append(log(us / measured))
    assert len(found) >= 8
    assert median(map(abs, found)) < 0.13 and abs(median(found)) < 0.1


def short() -> Iterator[tuple[str, str, float]]:
    """Shape, schedule and microseconds of kernels with at most 100 steps."""
    for shape, us in DATA["us"].items():
        problem = Extents.parse(shape).problem(import_fusion(definition()), 132)
        for name in (n for n in us if n in DATA["schedules"]):
            terms = terms_of(problem, params_of(name))
            if terms.rounds * terms.steps <= 100:
                yield shape, name, us[name]
