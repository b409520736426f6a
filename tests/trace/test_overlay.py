"""A predicted time line beside a measured one."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from lowering.ground.errors import UnsupportedError
from tests.trace.drawn import drawn
from wsched.trace.overlay import overlay
from wsched.trace.perfetto import trace_of
from wsched.trace.spans import Span
from wsched.trace.timeline import Trace


def span(name: str, tile: int | None, begin: float, end: float, cta: int = 0) -> Span:
    return Span(name, cta, cta, "compute", 0, 0, tile, begin, end)


def trace(*spans: Span, kernel: str = "k", unit: str = "ns") -> Trace:
    return Trace(kernel, unit, spans, about="predicted: CTA 0")


PREDICTED = trace(
    span("cta", None, 0, 5000.5),
    span("main_loop", 0, 0, 1000), span("epilogue", 0, 1000, 1500),
    span("store_wait", 0, 1100, 1250), span("store_wait", 0, 1300, 1450),
    span("main_loop", 1, 1500, 2500), span("epilogue", 1, 2500, 3000),
)  # fmt: skip


def measured(cta: int, late: float, loop: float, epilogue: float, tiles: int = 2) -> list[Span]:
    """A CTA that begins late and drifts."""
    found, at = [], late
    for tile in range(tiles):
        found.append(span("main_loop", tile, at, at + loop, cta))
        found.append(span("epilogue", tile, at + loop, at + loop + epilogue, cta))
        found.append(span("store_wait", tile, at + loop, at + loop + 300, cta))
        at += loop + epilogue + 77.5
    return [span("cta", None, late, at, cta), *found]


def test_each_tile_is_compared_with_its_own() -> None:
    """However late it begins; the median of CTAs, and of all of a CTA those with most tiles."""
    ctas = [measured(0, 900, 1050, 300), measured(1, 0, 1100, 400), measured(2, 50, 9000, 500)]
    ctas.append(measured(3, 0, 1100, 400, tiles=1))
    found = overlay(PREDICTED, trace(*chain(*ctas)))
    phases = {p.name: p for p in found.phases}
    assert list(phases) == ["cta", "main_loop", "epilogue", "store_wait"]
    assert phases["main_loop"].tiles == ((0, 1000, 1100), (1, 1000, 1100))
    assert phases["main_loop"].difference == pytest.approx(-1 / 11)
    assert phases["epilogue"].tiles == ((0, 500, 400), (1, 500, 400))
    assert phases["store_wait"].tiles == ((0, 300, 300),)  # both waits of a tile, and only of one
    assert phases["cta"].tiles == ((None, 5000.5, 3155.0),)
    assert [p.name for p in found.phases if p.wrong] == ["cta", "epilogue"]


def test_table() -> None:
    line = replace(trace(*measured(0, 0, 1100.5, 400)), ghz=1.5525)
    found = overlay(PREDICTED, line)
    assert found.table().splitlines() == [
        "k",
        "  predicted: CTA 0",
        "  measured: the medians of 1 CTAs at 1.552 GHz",
        "ns of a tile        tiles  predicted  measured  difference",
        "all cta                 1       5000      3156       +58 %  the model is wrong here",
        "compute main_loop       2       1000      1100        -9 %",
        "compute epilogue        2        500       400       +25 %  the model is wrong here",
        "compute store_wait      1        300       300        +0 %",
    ]


def test_what_only_one_of_them_has() -> None:
    """A phase that was not predicted, or not measured, is named: the model is wrong about it. Of
    one that both have the tiles that both have are compared.
    """
    line = trace(
        span("main_loop", 0, 0, 1000),
        span("main_loop", 1, 1000, 2000),
        span("drain", None, 2000, 2020),
    )
    found = overlay(PREDICTED, line)
    assert {p.name: p.only for p in found.phases} == {
        "cta": "predicted", "drain": "measured", "main_loop": "", "epilogue": "predicted",
        "store_wait": "predicted",
    }  # fmt: skip
    wrong = {p.name: (p.predicted, p.measured, p.difference) for p in found.phases if p.wrong}
    assert wrong["epilogue"] == (500, 0, None) and wrong["drain"] == (0, 20, None)
    assert "main_loop" not in wrong and len(wrong) == 4
    rows = found.table().splitlines()
    assert (
        "compute epilogue        2        500         0  only predicted  the model is wrong here"
        in (" ".join(row.split(" ")) for row in rows)
    )
    assert any(row.startswith("compute drain") and "only measured" in row for row in rows)
    assert [p["only"] for p in found.perfetto()["otherData"]["phases"]].count("predicted") == 3


def test_a_coarse_clock_tells_no_small_difference() -> None:
    """All times are multiples of 256: an epilogue is one or two of them, two waits up to four."""
    waits = [span("store_wait", 0, 2048, 2560), span("store_wait", 0, 2560, 2816)]
    coarse = trace(span("main_loop", 0, 0, 2048), span("epilogue", 0, 2048, 2304), *waits)
    found = {p.name: p for p in overlay(PREDICTED, coarse).phases}
    assert found["main_loop"].wrong and found["epilogue"].difference is None
    assert found["store_wait"].tiles == ((0, 300, 768),) and found["store_wait"].step == 512
    assert found["store_wait"].difference is None
    assert "clock with steps of 256 ns" in overlay(PREDICTED, coarse).table()


@pytest.mark.parametrize(("longer", "coarse"), [(1001, False), (1002, True)])
def test_a_clock_of_whole_nanoseconds_is_no_coarse_one(longer: int, coarse: bool) -> None:
    line = trace(span("main_loop", 0, 0, 1000), span("main_loop", 1, 1000, 1000 + longer))
    assert ("by a clock with steps of 2 ns" in overlay(PREDICTED, line).table()) is coarse
    assert ("clock" in overlay(PREDICTED, line).table()) is coarse


def test_of_several_predicted_ctas_the_first_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever number it has."""
    several = trace(span("main_loop", 0, 0, 800, cta=7), span("main_loop", 0, 0, 1000, cta=3))
    line = trace(*measured(4, 900, 1100.5, 400, tiles=1))
    shown = drawn(overlay(several, line).plot, tmp_path, monkeypatch)
    assert shown.bars["compute[0] predicted"] == {("main_loop", 900, 1900)}
    data = overlay(several, line).perfetto()
    assert {s.cta for s in trace_of(data).spans} == {4, 5}


def test_nothing_beside_nothing() -> None:
    found = overlay(trace(), trace())
    assert found.phases == ()
    assert found.table() == (
        "k\n  predicted: CTA 0\n  measured: the medians of 0 CTAs\n"
        "ns of a tile  tiles  predicted  measured  difference\n"
    )


def test_what_is_short_is_not_judged() -> None:
    short = trace(span("main_loop", 0, 0, 40.5)), trace(span("main_loop", 0, 0, 90.5))
    (phase,) = overlay(*short).phases
    assert phase.difference is None and not phase.wrong
    assert phase.to_dict()["tiles"] == [{"tile": 0, "predicted_ns": 40.5, "measured_ns": 90.5}]


def test_both_in_one_file() -> None:
    """What is predicted stands behind, each tile at the time of the measured one."""
    found = overlay(PREDICTED, trace(*measured(4, 900, 1100.5, 400)))
    data = found.perfetto()
    read = {(s.cta, s.name, s.tile): s for s in trace_of(data).spans if s.name != "store_wait"}
    assert {cta for cta, _, _ in read} == {4, 5}
    for tile in (0, 1):
        mine, its = (read[cta, "main_loop", tile] for cta in (5, 4))
        assert (mine.begin, mine.end) == pytest.approx((its.begin, its.begin + 1000))
    names = [e["args"]["name"] for e in data["traceEvents"] if e["name"] == "process_name"]
    assert names == ["CTA 4 on SM 4", "predicted CTA 0 on SM 0"]
    assert data["otherData"]["phases"] == [p.to_dict() for p in found.phases]


def test_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the first CTA, what is predicted below what is measured, from where each tile begins."""
    ctas = [*measured(4, 900, 1100.5, 400), *measured(5, 0, 1000, 300)]
    shown = drawn(overlay(PREDICTED, trace(*ctas)).plot, tmp_path, monkeypatch)
    assert shown.rows == ["compute[0] measured", "compute[0] predicted"]
    above, below = (sorted(b for b in shown.bars[r] if b[0] == "main_loop") for r in shown.rows)
    assert above == [("main_loop", 900, 2000.5), ("main_loop", 2478, 3578.5)]
    assert below == [("main_loop", 900, 1900), ("main_loop", 2478, 3478)]
    assert (shown.title, shown.unit) == ("k, CTA 0", "time [ns]")


def test_what_is_not_comparable() -> None:
    with pytest.raises(UnsupportedError, match=r"the time line of j beside that of k is not"):
        overlay(PREDICTED, trace(kernel="j"))
    with pytest.raises(UnsupportedError, match=r"an overlay of times in cycles is not supported"):
        overlay(PREDICTED, trace(unit="cycles"))
