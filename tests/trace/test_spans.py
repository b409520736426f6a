"""What a time line says: shares, overlap, the table and the Chrome trace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wsched.trace.spans import Span
from wsched.trace.timeline import Trace


def span(name: str, begin: float, end: float, group: int = 0, **more: Any) -> Span:
    """A span of CTA 0; groups 0 and 1 compute, group 2 loads."""
    role = "load" if group == 2 else "compute"
    place = {"cta": 0, "sm": 7, "warp": 4 * group, "tile": 0} | more
    return Span(name, role=role, group=group % 2, begin=begin, end=end, **place)


PING_PONG = Trace(
    "k",
    "ns",
    (
        span("cta", 0, 100, tile=None),
        span("main_loop", 0, 40),
        span("epilogue", 40, 60),
        span("store_wait", 45, 50),
        span("drain", 60, 65, tile=None),
        span("epilogue", 0, 100, warp=1),  # another warp of the group
        span("turn", 0, 40, 1, tile=1),
        span("main_loop", 40, 55, 1, tile=1),
        span("epilogue", 55, 75, 1, tile=1),
        span("load", 0, 50, 2),
    ),
)


def test_shares_are_of_the_first_warp_and_without_inner_spans() -> None:
    shares = PING_PONG.shares()
    assert list(shares) == ["compute[0]", "compute[1]", "load[0]"]
    assert shares["compute[0]"] == pytest.approx(
        {"main_loop": 0.4, "epilogue": 0.15, "store_wait": 0.05, "drain": 0.05}
    )
    assert shares["compute[1]"] == pytest.approx({"turn": 0.4, "main_loop": 0.15, "epilogue": 0.2})
    assert shares["load[0]"] == {"load": 0.5}


def test_shares_where_stamps_were_dropped() -> None:
    """The last ones of a CTA, that of its end among them: what is there is no more than all."""
    first, whole, second = span("main_loop", 0, 40), span("cta", 0, 60), span("main_loop", 0, 30)
    lost = (first, replace(span("load", 0, 80, 2), cta=1), replace(second, cta=1))
    shares = Trace("k", "ns", (whole, *lost), dropped=9).shares()
    assert shares["compute[0]"] == {"main_loop": 70 / 140} and shares["load[0]"] == {
        "load": 80 / 140
    }


def test_overlap_of_epilogues() -> None:
    """15 of the first group's 20 ns, none of the second's."""
    assert PING_PONG.epilogue_overlap() == pytest.approx(15 / 40)


@pytest.mark.parametrize(
    ("other", "under"),
    [
        ([(0, 10)], 0), ([(5, 12)], 2), ([(18, 99)], 2), ([(0, 99)], 10), ([(12, 14)], 2),
        ([(0, 12), (11, 13), (15, 16)], 4), ([(20, 30)], 0), ([], 0),
    ],
)  # fmt: skip
def test_parts_of_an_epilogue(other: list[tuple[float, float]], under: float) -> None:
    mains = tuple(span("main_loop", a, b, 1) for a, b in other) or (span("turn", 0, 1, 1),)
    trace = Trace("k", "ns", (span("epilogue", 10, 20), *mains))
    assert trace.epilogue_overlap() == under / 10


def test_other_ctas_and_the_own_main_loop_do_not_count() -> None:
    far = span("main_loop", 0, 99, 1, cta=1)
    trace = Trace("k", "ns", (span("epilogue", 10, 20), span("main_loop", 0, 99), far))
    assert trace.epilogue_overlap() == 0


def test_no_overlap_without_epilogues_or_a_second_group() -> None:
    one = Trace("k", "ns", (span("epilogue", 0, 1), span("load", 0, 1, 2)))
    assert one.epilogue_overlap() is None
    assert Trace("k", "ns", ()).epilogue_overlap() is None
    idle = Trace("k", "ns", (span("drain", 0, 1), span("drain", 0, 1, 1)))
    assert idle.epilogue_overlap() is None


def test_table(golden: object) -> None:
    assert PING_PONG.table() == golden


def test_table_of_nothing_and_of_dropped_stamps() -> None:
    assert Trace("k", "steps", ()).table() == "k: 0 CTAs, 0 steps\n% of the time  other\n"
    last = Trace("k", "ns", (span("cta", 0, 9),), dropped=3).table().splitlines()[-1]
    assert last == "3 stamps were dropped: the time line ends early"


FIELDS = {"X": {"ts": float, "dur": float, "cat": str}, "M": {}}
"""What the Chrome trace event format demands of a complete and of a metadata event, beside
name, ph, pid, tid and args (Trace Event Format, Google, 2016)."""


def check_format(data: Any) -> None:
    assert data["displayTimeUnit"] in ("ms", "ns")
    for event in data["traceEvents"]:
        kinds = {"name": str, "ph": str, "pid": int, "tid": int, "args": dict}
        kinds |= FIELDS[event["ph"]]
        assert {key: type(value) for key, value in event.items()} == kinds
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")


def test_perfetto(tmp_path: Path) -> None:
    PING_PONG.save(tmp_path / "trace.json")
    data = json.loads((tmp_path / "trace.json").read_text())
    check_format(data)
    assert data["otherData"] == {"kernel": "k", "unit": "ns", "dropped": 0}
    names = {e["args"]["name"] for e in data["traceEvents"] if e["name"].endswith("_name")}
    assert names == {
        "CTA 0 on SM 7", "compute[0] warp 0", "compute[0] warp 1", "compute[1] warp 4",
        "load[0] warp 8",
    }  # fmt: skip
    events = [e for e in data["traceEvents"] if e["ph"] == "X"]
    assert len(events) == len(PING_PONG.spans)
    assert events[0]["args"] == {}
    assert events[6] == {
        "name": "turn", "cat": "compute", "ph": "X", "pid": 0, "tid": 4, "ts": 0.0, "dur": 0.04,
        "args": {"tile": 1},
    }  # fmt: skip


def test_a_step_is_shown_as_a_microsecond() -> None:
    steps = Trace("k", "steps", (span("turn", 2.0, 5.0),)).perfetto()
    check_format(steps)
    assert (steps["traceEvents"][-1]["ts"], steps["traceEvents"][-1]["dur"]) == (2.0, 3.0)


def test_two_roles_that_compute_are_two_groups_whatever_they_are_called() -> None:
    """Each is group 0 of its role; the second one's main loop covers half of an epilogue."""
    spans = (
        span("epilogue", 10, 20),
        replace(span("main_loop", 15, 30), role="transform", warp=4),
        replace(span("load", 0, 30), role="fetch", warp=8),
    )
    assert Trace("k", "ns", spans).epilogue_overlap() == 0.5
    assert Trace("k", "ns", (spans[0], spans[2])).epilogue_overlap() is None
