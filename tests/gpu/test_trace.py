"""Time lines by the clocks of a GPU."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.schedules import SCHEDULES, definition
from wsched.front.sizes import Extents, kernel_for
from wsched.predict.line import beside
from wsched.trace.spans import Span
from wsched.trace.timeline import Trace

pytestmark = pytest.mark.gpu


def traced(name: str, m: int, n: int, k: int) -> Trace:
    """The time line of a matmul whose traced result is that of the kernel without clocks."""
    import torch

    import wsched

    x, w = (torch.randn(rows, k, device="cuda").bfloat16() for rows in (m, n))
    kernel = wsched.compile(definition(), [x, w], params=SCHEDULES[name])
    assert kernel.traced.resources.clean, str(kernel.traced.resources)
    out: Any = torch.full((m, n), float("nan"), dtype=torch.bfloat16, device="cuda")
    trace = kernel.trace(x, w, out=out)
    assert torch.equal(out, kernel(x, w)[0])
    return trace


def by_warp(trace: Trace, name: str) -> dict[tuple[int, int], list[tuple[float, float]]]:
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for s in trace.spans:
        if s.name == name:
            found.setdefault((s.cta, s.warp), []).append((s.begin, s.end))
    return found


def outside(trace: Trace) -> list[Span]:
    """Spans that begin or end outside of their CTA's."""
    lengths = {s.cta: (s.begin - 1, s.end + 1) for s in trace.spans if s.name == "cta"}
    assert set(lengths) == {s.cta for s in trace.spans}
    return [
        s for s in trace.spans if not (lengths[s.cta][0] <= s.begin <= s.end <= lengths[s.cta][1])
    ]


@pytest.mark.parametrize("name", SCHEDULES)
def test_spans_are_ordered(name: str) -> None:
    """Of two launches of three: in the middle of one the GPU may have been another process's for a
    millisecond, across which clocks of an SM say nothing. Tests beside each other take turns on it.
    """
    traces = [traced(name, 1032, 1032, 520) for _ in range(3)]
    whole = [t for t in traces if not outside(t)]
    assert len(whole) >= 2, [outside(t)[:1] for t in traces]
    trace = whole[0]
    assert trace.unit == "ns" and trace.dropped == 0
    for event in ("main_loop", "epilogue", "load", "turn"):
        for warp, spans in by_warp(trace, event).items():
            assert all(a[1] <= b[0] for a, b in pairwise(spans)), (event, warp)


def test_main_loops_of_ping_pong_are_apart() -> None:
    loops = [s for s in traced("pingpong_64x128", 2048, 2048, 1024).spans if s.name == "main_loop"]
    for cta in {s.cta for s in loops}:
        mine = [s for s in loops if s.cta == cta]
        for a in (s for s in mine if s.group == 0):
            for b in (s for s in mine if s.group == 1):
                assert a.end <= b.begin or b.end <= a.begin, (a, b)


def test_epilogues_of_ping_pong_are_under_main_loops() -> None:
    """512 tiles: four on most CTAs, of which the last one's epilogue has nothing to be under."""
    overlap = traced("pingpong_64x128", 2048, 2048, 1024).epilogue_overlap()
    assert overlap is not None and overlap > 0.5


def test_ctas_begin_at_about_the_same_time() -> None:
    """A grid of at most one CTA a multiprocessor: clocks of the SMs are aligned to microseconds."""
    trace = traced("coop_128x128", 2048, 2048, 512)
    begins = [s.begin for s in trace.spans if s.name == "cta"]
    assert max(begins) - min(begins) < 10_000
    assert len({s.sm for s in trace.spans}) == len(begins)


@pytest.mark.parametrize("name", ["coop_128x256", "pingpong_128x128"])
def test_main_loops_are_predicted_at_the_clock_of_the_launch(name: str) -> None:
    """At 2048 x 2048 x 1024, where the model was right about an H200; a clock that GPUs have."""
    extents = Extents(2048, 2048, 1024)
    trace = traced(name, extents.m, extents.n, extents.k)
    assert 0.5 < trace.ghz < 2.5
    kernel = kernel_for(definition(), extents, 132, SCHEDULES[name])
    found = beside(kernel, extents, extents.problem(kernel.fusion, 132), trace)
    loops = [p for p in found.phases if p.name == "main_loop"]
    assert len(loops) == 1 and not loops[0].wrong, found.table()
