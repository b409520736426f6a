"""What ``verify`` and the parser demand of stamps and trace buffers."""

from __future__ import annotations

import pytest

from lowering.kernel.kernel import TraceBuffer
from lowering.kernel.lexer import IRSyntaxError
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

KERNEL = "kernel k threads 128 cluster 1 grid 1 {{ trace spans[4](cta, load) {0} }}"


def test_well_formed() -> None:
    kernel = parse_kernel(KERNEL.format("stamp spans, load, end, %smid, clock=globaltimer"))
    assert verify(kernel) == []
    assert kernel.traces == (TraceBuffer("spans", 4, ("cta", "load")),)


@pytest.mark.parametrize(
    ("stamp", "problem"),
    [
        ("stamp other, load, end, 0", "no trace buffer named other"),
        ("stamp spans, store, end, 0", "no event named store, but cta, load"),
        ("stamp spans, load, middle, 0", "no phase named middle, but begin, end"),
        (
            "stamp spans, load, end, 0, clock=clock",
            "no clock named clock, but clock64, globaltimer",
        ),
    ],
)
def test_what_a_stamp_may_name(stamp: str, problem: str) -> None:
    assert verify(parse_kernel(KERNEL.format(stamp))) == [f"{problem}, in: {stamp}"]


def test_a_stamp_is_of_a_whole_warp() -> None:
    inner = "stamp spans, load, end, 0"
    problems = verify(parse_kernel(KERNEL.format(f"elect {{ {inner} }}")))
    assert problems == [f"stamp under elect, in: {inner}"]


def test_every_stamp_has_a_code_of_its_own() -> None:
    trace = TraceBuffer("spans", 4, ("cta", "load"))
    codes = [
        trace.code(event, phase, clock)
        for event in trace.events
        for clock in ("clock64", "globaltimer")
        for phase in ("begin", "end")
    ]
    assert codes == list(range(8))


def test_a_buffer_without_events_is_no_text() -> None:
    with pytest.raises(IRSyntaxError) as e:
        parse_kernel("kernel k threads 128 cluster 1 grid 1 { trace spans[4] cta.sync }")
    assert str(e.value) == "line 1: found 'cta.sync', expected '('"
