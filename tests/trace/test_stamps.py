"""Words of a trace buffer to spans: clocks of several SMs on one time line, what was dropped."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.kernel.storage import TraceBuffer
from lowering.kernel.text import parse_kernel
from wsched.trace.stamps import decode
from wsched.trace.timeline import Trace

KERNEL = parse_kernel("""
kernel k threads 256 cluster 1 grid 1 {
  trace spans[6](cta, load, drain)
  roles {
    role compute warps 0 .. 4 { cta.sync }
    role load warps 4 .. 8 { cta.sync }
  }
}
""")
CODE = KERNEL.traces[0].code
Stamp = tuple[int, str, str, int] | tuple[int, str, str, int, str]


def words(*ctas: dict[int, list[Stamp]]) -> np.ndarray:
    """Stamps ``(clock, event, phase, value[, which clock])`` of the warps of each CTA."""
    out = np.zeros((len(ctas), 8, 7, 2), np.int64)
    for cta, warps in enumerate(ctas):
        for warp, stamps in warps.items():
            out[cta, warp, 0, 0] = len(stamps)
            for slot, (clock, event, phase, value, *which) in enumerate(stamps[:6], 1):
                code = CODE(event, phase, *which or ("clock64",))
                out[cta, warp, slot] = clock, code + (value << 32)
    return out


def cta(sm: int, begin: int, at: int, end: int, until: int) -> list[Stamp]:
    """By the SM's clock from ``begin`` to ``end``, by the device's from ``at`` to ``until``."""
    return [
        (begin, "cta", "begin", 0), (at, "cta", "begin", sm, "globaltimer"),
        (end, "cta", "end", 0), (until, "cta", "end", sm, "globaltimer"),
    ]  # fmt: skip


def times(trace: Trace) -> list[tuple[int, str, float, float]]:
    return [(s.cta, s.name, s.begin, s.end) for s in trace.spans]


def test_clocks_of_two_sms() -> None:
    """Two cycles a nanosecond; the second SM's clock is a million ahead, its CTA 100 ns behind."""
    load: list[Stamp] = [(1_000_400, "load", "begin", 3), (1_000_600, "load", "end", 3)]
    first = {0: cta(5, 0, 7000, 2000, 8000)}
    second = {0: cta(9, 1_000_000, 7100, 1_002_000, 8100), 4: load}
    trace = decode(KERNEL, words(first, second), on_machine=False)
    assert (trace.unit, trace.dropped, trace.kernel, trace.ghz) == ("ns", 0, "k", 2.0)
    assert times(trace) == [(0, "cta", 0, 1000), (1, "cta", 100, 1100), (1, "load", 300, 400)]
    assert [(s.sm, s.role, s.group, s.warp, s.tile) for s in trace.spans] == [
        (5, "compute", 0, 0, None), (9, "compute", 0, 0, None), (9, "load", 0, 4, 3),
    ]  # fmt: skip


def test_a_coarse_timer_is_averaged() -> None:
    """The timer shows whole microseconds: the frequency is that of both CTAs together."""
    first, second = {0: cta(0, 0, 7000, 3000, 8000)}, {0: cta(1, 0, 7000, 3000, 9000)}
    trace = decode(KERNEL, words(first, second), on_machine=False)
    lengths = [s.end - s.begin for s in trace.spans]
    assert lengths == pytest.approx([1500, 1500])
    assert [s.begin for s in trace.spans] == pytest.approx([0, 500])


def test_a_timer_that_stands_still_leaves_cycles() -> None:
    first, second = {0: cta(0, 50, 7000, 90, 7000)}, {0: cta(1, 900, 7000, 970, 7000)}
    trace = decode(KERNEL, words(first, second), on_machine=False)
    assert trace.unit == "cycles" and trace.ghz == 0.0
    assert times(trace) == [(0, "cta", 0, 40), (1, "cta", 0, 70)]


def test_steps_are_taken_as_they_are() -> None:
    first, second = {0: cta(0, 10, 11, 90, 91)}, {0: cta(1, 12, 13, 97, 98)}
    trace = decode(KERNEL, words(first, second), on_machine=True)
    assert trace.unit == "steps"
    assert times(trace) == [(0, "cta", 0, 80), (1, "cta", 2, 87)]


def test_without_room_for_its_end_a_cta_still_has_its_spans() -> None:
    drains: list[Stamp] = [(100, "drain", "begin", 0), (200, "drain", "end", 0)] * 2
    stamps = cta(0, 0, 7000, 2000, 8000)
    full = [*stamps[:2], *drains, *stamps[2:]]
    trace = decode(KERNEL, words({0: full}, {0: stamps}), on_machine=False)
    assert trace.dropped == 2
    assert times(trace) == [(0, "drain", 50, 100), (0, "drain", 50, 100), (1, "cta", 0, 1000)]


def test_spans_within_spans() -> None:
    inner: list[Stamp] = [
        (1, "load", "begin", 0), (1, "drain", "begin", 0), (3, "drain", "end", 0),
        (4, "load", "end", 0), (5, "load", "begin", 1),
    ]  # fmt: skip
    trace = decode(KERNEL, words({2: inner}), on_machine=True)
    assert times(trace) == [(0, "load", 0, 3), (0, "drain", 0, 2)]


def test_a_turn_lasts_until_the_main_loop() -> None:
    """What is behind a ``bar.sync`` reads the clock before the warp waits; behind the turn of an
    epilogue no stamp tells more.
    """
    kernel = KERNEL.redeclare(TraceBuffer("spans", 6, ("cta", "turn", "main_loop")))
    code = kernel.traces[0].code
    stamps = [
        (10, "turn", "begin", 1), (90, "turn", "end", 1),
        (700, "main_loop", "begin", 1), (900, "main_loop", "end", 1), (910, "turn", "begin", 1),
        (920, "turn", "end", 1),
    ]  # fmt: skip
    rows = np.zeros((1, 8, 7, 2), np.int64)
    rows[0, 1, 0, 0] = len(stamps)
    for slot, (clock, event, phase, value) in enumerate(stamps, 1):
        rows[0, 1, slot] = clock, code(event, phase, "clock64") + (value << 32)
    trace = decode(kernel, rows, on_machine=True)
    assert times(trace) == [
        (0, "turn", 0, 690), (0, "main_loop", 690, 890), (0, "turn", 900, 910),
    ]  # fmt: skip


def test_no_cta() -> None:
    assert decode(KERNEL, words(), on_machine=False).spans == ()


def test_a_timer_that_has_run_for_years_is_as_exact() -> None:
    """Of 1.7e18 ns a float has every 256th: times count from the first that is told."""
    years = 1_700_000_000_000_000_000
    load: list[Stamp] = [(1_000_401, "load", "begin", 3), (1_000_622, "load", "end", 3)]
    first = {0: cta(5, 0, years, 2000, years + 1000)}
    second = {0: cta(9, 1_000_000, years + 100, 1_002_000, years + 1100), 4: load}
    trace = decode(KERNEL, words(first, second), on_machine=False)
    assert times(trace) == [(0, "cta", 0, 1000), (1, "cta", 100, 1100), (1, "load", 300.5, 411)]
