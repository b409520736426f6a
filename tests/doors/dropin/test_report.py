"""What ``wsched.report`` tells of calls that have been made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.doors.dropin.definitions import BUILDERS, F32, built, inputs_of, matrix
from tests.doors.dropin.spy import Spy
from wsched.choose.nvfuser_cost import NvfuserCost
from wsched.doors.dropin import ledger
from wsched.doors.dropin.ledger import Ledger, Tally
from wsched.doors.dropin.report import Report
from wsched.front.cut.predict import SegmentsCost
from wsched.front.cut.shares import Share


@pytest.fixture(autouse=True)
def installed(nvfuser: Spy, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from wsched.doors.dropin import decide, execute, report

    fresh = Ledger()
    monkeypatch.setattr(execute, "LEDGER", fresh)
    monkeypatch.setattr(report, "LEDGER", fresh)
    monkeypatch.setattr(decide, "_NO_MATMUL", decide.Known("no linear or matmul"))
    with wsched.enabled():
        yield


def test_nothing_has_been_called() -> None:
    found = wsched.report()
    assert (found.calls, found.share, found.saved_us, found.lines) == (0, None, 0.0, ())
    assert str(found) == "no call of FusionDefinition.execute with wsched in front of nvFuser\n"


def test_calls_that_were_taken() -> None:
    fd = built(BUILDERS["mlp"])
    for rows in (32, 32, 48):
        fd.execute(inputs_of("mlp", rows))
    first, second = wsched.report().lines
    assert (first.calls, second.calls, first.reason) == (2, 1, "")
    assert [s.problem for s in first.shares] == ["32x64 . 96x64", "32x96 . 64x96"]
    assert [s.flops for s in second.shares] == [2 * 48 * 64 * 96] * 2
    found = wsched.report()
    assert (found.calls, found.taken, found.share) == (3, 3, 1.0)
    assert first.nvfuser is not None and first.cost is not None
    one = first.nvfuser.us - first.cost.us
    assert one > 0 and first.saved_us == pytest.approx(2 * one)
    assert "3 of 3 calls taken in part or whole; of the matmuls: 100.0% of the" in str(found)


def test_calls_that_were_not() -> None:
    def wide(fd: Any) -> None:
        fd.add_output(fd.ops.linear(matrix(fd, F32), matrix(fd, F32)))

    def passed(fd: Any) -> None:
        x = matrix(fd)
        fd.add_output(fd.ops.neg(fd.ops.linear(x, matrix(fd))))
        fd.add_output(x)

    def pointwise(fd: Any) -> None:
        fd.add_output(fd.ops.neg(matrix(fd)))

    a, b = inputs_of("linear")
    for build, inputs in ((wide, [a.float(), b.float()]), (passed, [a, b]), (pointwise, [a])):
        for _ in range(2):  # made anew, it is the same line
            fd = built(build)
            for _ in range(3):
                fd.execute(inputs)
    found = wsched.report()
    assert [(t.calls, t.name) for t in found.lines] == [
        (6, "linear"), (6, "linear + 2 more"), (6, "no matmul")
    ]  # fmt: skip
    assert (found.taken, found.share, found.saved_us) == (0, 0.0, 0.0)
    assert [s.narrow for t in found.lines for s in t.shares] == [False, True]
    text = str(found)
    assert "50.0% of the operations: fd.ops.linear of Float and Float is not supported" in text
    assert "6 x no matmul: nvFuser (no linear or matmul)" in text


def test_a_kernel_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    from wsched.doors.dropin import execute

    def refusing(*_: Any) -> Any:
        raise UnsupportedError("this", "that")

    monkeypatch.setattr(execute, "_run_of", refusing)
    fd = built(BUILDERS["linear"])
    fd.execute(inputs_of("linear"))
    (line,) = wsched.report().lines
    assert line.reason == "this is not supported; supported: that"
    assert [s.reason for s in line.shares] == [line.reason] and line.saved_us == 0.0


def test_plain_data_and_clearing() -> None:
    fd = built(BUILDERS["linear"])
    for _ in range(2):
        fd.execute(inputs_of("linear"))
    found = json.loads(json.dumps(wsched.report(clear=True).to_dict()))
    assert (found["calls"], found["share"], found["lines"][0]["taken"]) == (2, 1.0, True)
    assert found["lines"][0]["matmuls"][0]["problem"] == "32x64 . 24x64"
    assert wsched.report().calls == 0
    fd.execute(inputs_of("linear"))
    assert wsched.report().calls == 1


def test_a_report_does_not_change_with_later_calls() -> None:
    fd = built(BUILDERS["linear"])
    fd.execute(inputs_of("linear"))
    before = wsched.report()
    fd.execute(inputs_of("linear"))
    assert (before.calls, wsched.report().calls) == (1, 2)


def test_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "LINES", 1)
    kept = Ledger()
    for name in "abc":
        kept.line(Tally(name, ""), 2)
    assert [(t.name, t.calls) for t in kept.lines()] == [
        ("a", 2), ("further definitions and classes of inputs", 4)
    ]  # fmt: skip


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


def test_kernels_and_parts_of_a_line_of_the_log() -> None:
    fd = built(BUILDERS["centred_before"])
    fd.execute(inputs_of("centred_before"))
    (line,) = wsched.report().lines
    assert line.told().startswith(f"{line.name}: 1 kernels of wsched's in 2 parts, predicted ")


def test_saved_by_calls() -> None:
    cost, nvfuser = SegmentsCost(90.0, 20.0), NvfuserCost(100.0, 50.0, 30.0)
    assert Tally("a", "", (), cost, nvfuser, 4).saved_us == 240.0
    for tally in (Tally("a", "no", (), cost, nvfuser, 4), Tally("a", "", (), cost, None, 4)):
        assert tally.saved_us == 0.0
    assert Tally("a", "", (), None, nvfuser, 4).saved_us == 0.0
