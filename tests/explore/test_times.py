from __future__ import annotations

import pytest

from wsched.choose.cost import Cost
from wsched.explore.data import Bar
from wsched.explore.times import CTAS, measured, predicted
from wsched.trace.spans import Span
from wsched.trace.timeline import Trace

COST = Cost(
    launch_us=1.0, main_us=8.0, epilogue_us=2.0, combine_us=0.0, memory_us=0.5, power_us=0.0,
    tiles=100, rounds=2, step="copies",
)  # fmt: skip


def test_main_loops_and_epilogues_take_turns() -> None:
    (lane,) = predicted(COST, ping_pong=False).lanes
    assert lane.bars == (
        Bar("start", 0.0, 1.0, -1),
        Bar("k loops", 1.0, 5.0, 0),
        Bar("epilogues", 5.0, 6.0, 0),
        Bar("k loops", 6.0, 10.0, 1),
        Bar("epilogues", 10.0, 11.0, 1),
        Bar("memory", 11.0, 11.5, -1),
    )
    assert lane.bars[-1].end == COST.us


def test_ping_pong_hides_epilogues_under_main_loops() -> None:
    (lane,) = predicted(COST, ping_pong=True).lanes
    assert [(b.name, b.end - b.begin, b.tile) for b in lane.bars] == [
        ("start", 1.0, -1), ("k loops", 8.0, -1), ("epilogues", 2.0, -1), ("memory", 0.5, -1),
    ]  # fmt: skip


def spans(ctas: int) -> tuple[Span, ...]:
    return tuple(
        Span(name, cta, 0, "compute", 0, 0, tile, begin, end)
        for cta in range(ctas)
        for name, tile, begin, end in (
            ("cta", None, 0, 9000), ("epilogue", 0, 4000, 9000), ("main_loop", 0, 500, 4000),
            ("store_wait", 0, 5000, 6000), ("drain", None, 9000, 9100),
        )
    )  # fmt: skip


def test_a_trace_in_microseconds() -> None:
    line = measured(Trace("k", "ns", spans(3), dropped=7))
    assert (line.title, line.unit) == ("measured", "us")
    assert line.about.endswith("; 7 stamps were dropped")
    assert [lane.title for lane in line.lanes] == [f"CTA {c} compute[0]" for c in range(CTAS)]
    assert line.lanes[0].bars == (
        Bar("main_loop", 0.5, 4.0, 0),
        Bar("epilogue", 4.0, 9.0, 0),
        Bar("store_wait", 5.0, 6.0, 0),
        Bar("drain", 9.0, pytest.approx(9.1), -1),  # type: ignore[arg-type]
    )


def test_steps_of_the_machine_are_no_time() -> None:
    line = measured(Trace("k", "steps", spans(1)))
    assert (line.title, line.unit) == ("on the machine", "steps")
    assert "not a time" in line.about
    assert line.lanes[0].bars[0] == Bar("main_loop", 500, 4000, 0)
