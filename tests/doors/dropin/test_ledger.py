"""Lines of calls: how they are counted, what one says."""

from __future__ import annotations

import pytest

from wsched.choose.nvfuser_cost import NvfuserCost
from wsched.doors.dropin import ledger
from wsched.doors.dropin.ledger import Ledger, Tally
from wsched.front.cut.predict import SegmentsCost


def test_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "LINES", 1)
    kept = Ledger()
    at_hand = [kept.line(Tally(name, ""), 2) for name in "abc"]
    assert [(t.name, t.calls) for t in kept.lines()] == [
        ("a", 2), ("further definitions and classes of inputs", 4)
    ]  # fmt: skip
    assert [t.reason for t in at_hand] == ["", "not kept apart", "not kept apart"]


def test_counting_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are as those who count in them know them, and are shown once one is called again."""
    monkeypatch.setattr(ledger, "LINES", 1)
    kept = Ledger()
    first, more = kept.line(Tally("a", ""), 3), kept.line(Tally("b", ""), 1)
    kept.clear()
    assert kept.lines() == () and (first.calls, more.calls) == (0, 0)
    more.calls += 1
    assert [(t.name, t.calls) for t in kept.lines()] == [(more.name, 1)]


@pytest.mark.parametrize(
    ("tally", "told"),
    [
        (Tally("linear", "slower"), "linear: nvFuser runs it: slower"),
        (Tally("linear", ""), "linear: 0 kernels of wsched's in 0 parts"),
        (Tally("linear", "", (), SegmentsCost(9.0, 20.0), NvfuserCost(1.0, 5.0, 30.0)),
         "linear: 0 kernels of wsched's in 0 parts, predicted 20.0 us, nvFuser 30.0 us"),
    ],
)  # fmt: skip
def test_a_line_of_the_log(tally: Tally, told: str) -> None:
    assert tally.told() == told


def test_saved_by_calls() -> None:
    cost, nvfuser = SegmentsCost(90.0, 20.0), NvfuserCost(100.0, 50.0, 30.0)
    assert Tally("a", "", (), cost, nvfuser, 4).saved_us == 240.0
    for tally in (Tally("a", "no", (), cost, nvfuser, 4), Tally("a", "", (), cost, None, 4)):
        assert tally.saved_us == 0.0
    assert Tally("a", "", (), None, nvfuser, 4).saved_us == 0.0
