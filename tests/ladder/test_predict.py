"""What the machine with a clock predicts of rungs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lowering.target.targets import named
from tests.pictures import shown
from wsched.choose.cost_model import START
from wsched.ladder import predict as module
from wsched.ladder.climb import climb, rate
from wsched.ladder.decisions import Grid
from wsched.ladder.picture import draw, lanes_of_trace
from wsched.ladder.predict import Prediction
from wsched.ladder.rungs import RUNGS
from wsched.predict.activity import ACTIVITIES, Lane, Part
from wsched.trace.spans import Span
from wsched.trace.timeline import Trace

STEPS = climb()


@pytest.mark.parametrize("number", [4, 8])
def test_cycles_of_a_slice_are_no_fewer_than_its_products(number: int) -> None:
    """128 x 128 x 64 are 512 cycles of the tensor core of an SM."""
    p = STEPS[number - 1].prediction
    assert p.slice >= 512 * p.tiles and p.start > 0


def test_stages_hide_the_way_from_the_l2() -> None:
    shallow, deep = (STEPS[n].prediction for n in (6, 7))
    assert deep.slice < 0.6 * shallow.slice


def test_one_cta_takes_as_long_as_all_its_tiles() -> None:
    p = Prediction(1000.0, 500.0, 1)
    one, many = RUNGS[1].decided, RUNGS[2].decided
    sizes = 128 * 12, 128 * 11, 64
    assert p.us(one, *sizes) == pytest.approx(12 * 11 * 1500 / 1904, rel=0.01)
    assert p.us(many, *sizes) == pytest.approx((1500 + 500) / 1904, rel=0.05)
    assert rate(1000, 1000, 1000, 2.0) == 1000.0


@pytest.mark.parametrize(("k", "sms"), [(64, 132), (640, 132), (640, 20)])
@pytest.mark.parametrize("number", range(len(RUNGS)))
def test_rounds_of_places(number: int, k: int, sms: int) -> None:
    """A launch, and for each round what a tile costs beside and in its k loop: so long
    that power does not matter.
    """
    p, decided = Prediction(1e5, 3e4, 2), RUNGS[number].decided
    m, n = 128 * 9, 128 * 11
    rows = -(-m // (decided.rows * decided.cluster)) * decided.cluster
    places = 1 if decided.grid is Grid.ONE_CTA else 2 * sms
    cycles = START + -(-rows * 11 // places) * (100_000 + 30_000 * k // 64)
    assert p.us(decided, m, n, k, sms) == pytest.approx(cycles / 1904, rel=1e-6)


@pytest.mark.parametrize("each", [True, False])
def test_a_line_through_two_depths(each: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a round costs without a step of K, and each 64 of it more; where CTAs go on with their
    next tile, without what all of them cost together.
    """
    asked = []

    def run(kernel: object, decided: object, tiles: int, k: int, together: int) -> object:
        asked.append((tiles, k, together))
        round_ = 700 + 5.5 * k
        return SimpleNamespace(cycles=round_ if each else 9999 + tiles * round_)

    monkeypatch.setattr(module, "_run", run)
    monkeypatch.setattr(module, "resident", lambda kernel: 3)
    decided = next(r.decided for r in RUNGS if (r.decided.grid is Grid.A_CTA_EACH) is each)
    found = module.predict(cast(Any, None), decided)
    assert (found.start, found.slice) == pytest.approx((700, 5.5 * 64))
    assert found.tiles == (3 if each else 1)
    rounds = [(3, 3)] if each else [(3, 1), (2, 1)]
    assert asked == [(tiles, k, of) for k in module.DEPTHS for tiles, of in rounds]


def test_who_waits() -> None:
    """With one stage for the slice; with load warps these wait for room."""
    (compute,) = STEPS[3].shown.lanes
    assert compute.name == "compute[0]"
    shares = compute.shares(STEPS[3].shown.cycles)
    assert max(shares, key=lambda name: shares[name]) == "data"
    consumer, producer = STEPS[7].shown.lanes
    assert set(producer.shares(1.0)) == {"copy", "room", "reckon"}
    assert set(consumer.shares(1.0)) <= {*ACTIVITIES} - {"copy"}


def test_who_waits_for_products() -> None:
    """One thread of the load warpgroup issues them, for the warpgroup that stores."""
    step = climb(named("sm_100a"))[7]
    lanes = {lane.name: lane.shares(step.shown.cycles) for lane in step.shown.lanes}
    assert list(lanes) == ["epilogue[0]", "load[0]", "load[0] warp 1"]
    assert set(lanes["load[0]"]) == {"copy", "room", "reckon"}
    assert lanes["load[0] warp 1"]["data"] > 0.3 and lanes["epilogue[0]"]["multiply"] > 0.3


def test_nothing_is_said_of_how_fast_it_is_there() -> None:
    steps = climb(named("sm_100a"))
    found = steps[4].to_dict(4096, 4096, 4096)
    assert found["predicted_us"] is found["predicted_tflops"] is found["measured_us"] is None
    pair = steps[8].to_dict(4096, 4096, 4096)
    assert (found["target"], pair["target"]) == ("sm_100a", "sm_100a.cta_group::2")
    assert "multiply together" in pair["why"]


def test_json() -> None:
    found = STEPS[3].to_dict(4096, 4096, 4096, 500.0)
    assert (found["rung"], found["threads"], found["resident"]) == ("v4", 128, 3)
    assert found["measured_tflops"] == pytest.approx(2 * 4096**3 / 500e6)
    assert found["decision"].startswith("copies: the threads")
    assert found["waits"]["compute[0]"]["data"] > 0.3


def test_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: object) -> None:
    """Of six steps one may be so slow that its lanes end beyond the axis."""
    slow, fast = (
        [(step, [Lane(f"compute[{g}]", tuple(parts(unit))) for g in range(2)])]
        for step, unit in ((STEPS[3], 1000.0), (STEPS[4], 10.0))
    )
    rows = [*slow, *fast * 5]
    assert shown(lambda path: draw(rows, "cycles", path), tmp_path, monkeypatch) == golden


def parts(unit: float) -> Iterator[Part]:
    """One of each activity."""
    for n, activity in enumerate(ACTIVITIES):
        yield Part(activity, n * unit, (n + 1) * unit)


def test_lanes_of_a_recorded_run() -> None:
    """An inner span is cut out of the one around it; other CTAs are left out."""

    def span(name: str, begin: float, end: float, cta: int = 3) -> Span:
        return Span(name, cta, 0, "compute", 0, 0, None if name == "cta" else 0, begin, end)

    spans = (span("cta", 0, 9), span("main_loop", 0, 4), span("epilogue", 4, 8),
             span("store_wait", 5, 6), span("main_loop", 0, 1, 4))  # fmt: skip
    (lane,) = lanes_of_trace(Trace("k", "ns", spans))
    assert [(p.activity, p.begin, p.end) for p in lane.parts] == [
        ("multiply", 0, 4), ("convert", 4, 5), ("stored", 5, 6), ("convert", 6, 8),
    ]  # fmt: skip
