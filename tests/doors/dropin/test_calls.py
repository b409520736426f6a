"""What ``wsched.report`` tells of calls that have been made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.doors.dropin.definitions import BF16, BUILDERS, F32, built, inputs_of, matrix
from tests.doors.dropin.spy import Spy
from wsched.doors.dropin.ledger import Ledger


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

    def written(fd: Any) -> None:
        x = matrix(fd)
        fd.add_output(fd.ops.neg(fd.ops.linear(x, matrix(fd))))
        fd.add_output(x)
        fd.add_output(fd.ops.cast(fd.ops.neg(x), dtype=BF16), x)

    def pointwise(fd: Any) -> None:
        fd.add_output(fd.ops.neg(matrix(fd)))

    a, b = inputs_of("linear")
    for build, inputs in ((wide, [a.float(), b.float()]), (written, [a, b]), (pointwise, [a])):
        for _ in range(2):  # made anew, it is the same line
            fd = built(build)
            for _ in range(3):
                fd.execute(inputs)
    found = wsched.report()
    assert [(t.calls, t.name) for t in found.lines] == [
        (6, "linear"), (6, "linear + 5 more"), (6, "no matmul")
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
    fd.execute(inputs_of("linear"))  # and it is not asked again
    assert [t.calls for t in wsched.report().lines] == [2]
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


def test_kernels_and_parts_of_a_line_of_the_log() -> None:
    fd = built(BUILDERS["centred_before"])
    fd.execute(inputs_of("centred_before"))
    (line,) = wsched.report().lines
    assert line.told().startswith(f"{line.name}: 1 kernels of wsched's in 2 parts, predicted ")
