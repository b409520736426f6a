from __future__ import annotations

import json
from pathlib import Path

import pytest

from wsched.trace.perfetto import TraceFileError, load_trace
from wsched.trace.spans import Span
from wsched.trace.timeline import Trace

NAMELESS = json.dumps(
    {
        "otherData": {"unit": "ns"},
        "traceEvents": [{"name": "process_name", "ph": "M", "pid": 0, "args": {}}],
    }
)


@pytest.mark.parametrize("unit", ["ns", "cycles", "steps"])
def test_what_was_saved_is_read_back(unit: str, tmp_path: Path) -> None:
    spans = (
        Span("cta", 0, 17, "compute", 0, 0, None, 0.0, 64.0),
        Span("main_loop", 0, 17, "compute", 1, 4, 3, 8.0, 32.0),
        Span("load", 1, 18, "load", 0, 8, 0, 0.5, 16.0),
    )
    trace, path = Trace("k_traced", unit, spans, 2, "of CTA 0", 1.625), tmp_path / "t.json"
    trace.save(path)
    found = load_trace(path)
    assert (found.kernel, found.unit, found.dropped, found.about, found.ghz) == (
        "k_traced", unit, 2, "of CTA 0", 1.625,
    )  # fmt: skip
    for mine, its in zip(spans, found.spans, strict=True):
        assert (its.begin, its.end) == pytest.approx((mine.begin, mine.end))
        assert (its.name, its.cta, its.sm, its.role, its.group, its.warp, its.tile) == (
            mine.name, mine.cta, mine.sm, mine.role, mine.group, mine.warp, mine.tile,
        )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"ts": float("nan")}, {"ts": 1e308, "dur": 1e308}, {"dur": -1}, {"args": {"tile": "x"}},
        {"kernel": 3, "dropped": "many"}, {"ghz": "x"}, {"ghz": float("nan")}, {"name": "lunch"},
    ],
    ids=str,
)  # fmt: skip
def test_values_that_are_none_of_a_time_line(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    span = Span("load", 0, 0, "load", 0, 8, 0, 0.5, 16.0)
    Trace("k_traced", "ns", (span,), 0, "", 1.5).save(path)
    data = json.loads(path.read_text())
    data["otherData"].update(change)
    data["traceEvents"][-1].update(change)
    path.write_text(json.dumps(data))
    with pytest.raises(TraceFileError, match="is no time line as wsched trace --json writes it"):
        load_trace(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no JSON: Expecting property name enclosed in double quotes"),
        ("[" * 100_000, "is no JSON: maximum recursion depth exceeded"),
        (NAMELESS, "is no time line as wsched trace --json writes it: ValueError"),
        ("[]", "is no time line as wsched trace --json writes it: TypeError"),
        ("{}", "is no time line as wsched trace --json writes it: KeyError 'otherData'"),
        (json.dumps({"otherData": {"unit": "weeks"}}), "writes it: KeyError 'weeks'"),
    ],
)
def test_other_files(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(TraceFileError) as e:
        load_trace(path)
    assert str(e.value).startswith(str(path)) and why in str(e.value)
