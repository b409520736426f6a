"""What a report says of lines: as text, as plain data."""

from __future__ import annotations

import pytest

from wsched.choose.nvfuser_cost import NvfuserCost
from wsched.doors.dropin import report as module
from wsched.doors.dropin.ledger import Ledger, Tally
from wsched.doors.dropin.report import Report, report
from wsched.front.cut.predict import SegmentsCost
from wsched.front.cut.shares import Share


def test_the_text() -> None:
    own = Share("linear", 4, "8x4 . 4x4", 750, narrow=True, reason="")
    other = Share("matmul", 9, "8x4 . 4x4", 250, narrow=True, reason="too small")
    cost, nvfuser = SegmentsCost(90.0, 20.0), NvfuserCost(100.0, 50.0, 30.0)
    found = Report((Tally("linear + matmul", "", (own, other), cost, nvfuser, 1000),))
    assert str(found) == (
        "1000 of 1000 calls taken in part or whole; of the matmuls: 75.0% of the operations in "
        "wsched's kernels; predicted to have saved 60.000 ms\n\n"
        "     1000 x linear + matmul: 1 of 2 matmuls, 90.0 us instead of 150.0\n\n"
        "why not:\n   25.0% of the operations: too small\n"
    )


def test_plain_data_of_each_line() -> None:
    """All that the text has, and each matmul; None where nothing was predicted."""
    own = Share("linear", 4, "8x4 . 4x4", 750, narrow=True, reason="")
    other = Share("matmul", 9, "8x4 . 4x4", 250, narrow=False, reason="too small")
    cost, nvfuser = SegmentsCost(90.0, 20.0), NvfuserCost(100.0, 50.0, 30.0)
    lines = (
        Tally("linear + matmul", "", (own, other), cost, nvfuser, 3),
        Tally("linear", "slower", (own,), None, nvfuser, 2),
        Tally("no matmul", "no matmul"),
    )
    shares = [
        {"op": "linear", "line": 4, "problem": "8x4 . 4x4", "flops": 750, "narrow": True,
         "reason": ""},
        {"op": "matmul", "line": 9, "problem": "8x4 . 4x4", "flops": 250, "narrow": False,
         "reason": "too small"},
    ]  # fmt: skip
    assert Report(lines).to_dict() == {
        "calls": 5, "taken": 3, "share": 1.0, "saved_us": 180.0,
        "lines": [
            {"name": "linear + matmul", "calls": 3, "taken": True, "reason": "",
             "predicted_us": 90.0, "nvfuser_us": 150.0, "saved_us": 180.0, "matmuls": shares},
            {"name": "linear", "calls": 2, "taken": False, "reason": "slower",
             "predicted_us": None, "nvfuser_us": 150.0, "saved_us": 0.0, "matmuls": shares[:1]},
            {"name": "no matmul", "calls": 0, "taken": False, "reason": "no matmul",
             "predicted_us": None, "nvfuser_us": None, "saved_us": 0.0, "matmuls": []},
        ],
    }  # fmt: skip


def test_the_text_of_many_lines() -> None:
    """Those of most operations first, as far as these are known; reasons that are rare are counted
    together."""

    def line(at: int) -> Tally:
        share = Share("linear", 1, "", 10 + at, narrow=at % 2 == 0, reason=f"reason {at}")
        return Tally(f"line {at}", "" if at == 3 else f"all {at}", (share,), calls=1)

    text = str(Report((Tally("unknown", "none", calls=9), *map(line, range(14)))))
    head, _, rest = text.partition("\n\n")
    assert head == (
        "1 of 23 calls taken in part or whole; of the matmuls: 0.0% of the operations in wsched's "
        "kernels; predicted to have saved 0.000 ms"
    )
    told, _, why = rest.partition("\n\nwhy not:\n")
    wanted = [f"        1 x line {at}: nvFuser (all {at})" for at in range(13, -1, -1)]
    wanted[10] = "        1 x line 3: 0 of 1 matmuls"
    assert told.splitlines() == [*wanted, "        9 x unknown: nvFuser (none)"]
    whole = sum(10 + at for at in range(14))
    reasons = [
        f"  {(10 + at) / whole:6.1%} of the operations: reason {at}" for at in range(13, 1, -1)
    ]
    assert why == "\n".join([*reasons, "  and 2 more reasons", ""])
    assert "of the matmuls: none of 16 bits in" in str(Report((Tally("a", "b", calls=1),)))


def test_no_line() -> None:
    found = Report(())
    assert (found.calls, found.taken, found.share, found.saved_us) == (0, 0, None, 0.0)
    assert str(found) == "no call of FusionDefinition.execute with wsched in front of nvFuser\n"


def test_the_share_is_of_16_bits_by_operations_and_calls() -> None:
    def tally(calls: int, *shares: Share) -> Tally:
        return Tally("a", "", shares, calls=calls)

    own, other = (
        Share("linear", 1, "", 100, narrow=True, reason=reason) for reason in ("", "too small")
    )
    wide = Share("linear", 1, "", 1000, narrow=False, reason="of Float")
    assert Report((tally(3, own), tally(1, other, wide))).share == 0.75
    assert Report((tally(1, other),)).share == 0.0
    assert Report((tally(1, wide),)).share is None


def test_lines_of_most_operations_by_all_calls_come_first() -> None:
    def tally(name: str, flops: int, calls: int) -> Tally:
        return Tally(name, "no", (Share("linear", 1, "", flops, True, "no"),), calls=calls)

    text = str(Report((tally("a", 10, 1), tally("b", 2, 9), tally("c", 5, 3))))
    assert [line.split()[2] for line in text.splitlines()[2:5]] == ["b:", "c:", "a:"]


def test_a_report_is_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps all that is known of a line, and calls after it are the next one's."""
    ledger = Ledger()
    monkeypatch.setattr(module, "LEDGER", ledger)
    own = Share("linear", 4, "8x4 . 4x4", 750, narrow=True, reason="")
    cost, nvfuser = SegmentsCost(90.0, 20.0), NvfuserCost(100.0, 50.0, 30.0)
    line = ledger.line(Tally("linear", "", (own,), cost, nvfuser), 2)
    first = report()
    line.calls += 1
    second = report(clear=True)
    assert [(r.calls, r.saved_us, r.share) for r in (first, second)] == [
        (2, 120.0, 1.0), (3, 180.0, 1.0)
    ]  # fmt: skip
    assert report().lines == ()
    line.calls += 1
    assert [t.calls for t in report().lines] == [1]
