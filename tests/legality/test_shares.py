"""When a run of draws fails though it found no fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.legality import __main__ as run
from tests.legality.agreement import Outcome
from tests.legality.builder import unscheduled
from tests.legality.oracle import Verdict
from tests.legality.shares import ENOUGH, Shares

LEGAL, ILLEGAL = Verdict(), Verdict("a step is missing")


def shares(**times: int) -> Shares:
    """So many draws of each kind."""
    kinds = {
        "runs": Outcome(LEGAL, unproved=()),
        "cautious": Outcome(LEGAL, "box"),
        "agreed": Outcome(ILLEGAL, "box"),
        "left": Outcome(ILLEGAL, unsupported=True),
        "unjudged": Outcome(None, "box"),
    }
    found = Shares()
    for kind, n in times.items():
        for _ in range(n):
            found.count(kinds[kind])
    return found


def test_what_is_counted() -> None:
    found = shares(runs=3, cautious=2, agreed=5, left=7, unjudged=11)
    assert found == Shares(judged=17, legal=5, refused=7, agreed=5)


@pytest.mark.parametrize(
    ("times", "too_low"),
    [
        ({"runs": 75, "agreed": 225}, False),
        ({"runs": 74, "agreed": 226}, True),
        ({"runs": 74, "agreed": 225}, False),  # 299 draws
        ({"runs": 74, "left": 226}, True),
        ({"runs": 75, "left": 225, "unjudged": 500}, False),
        ({"runs": 300, "agreed": 285, "cautious": 15}, False),
        ({"runs": 300, "agreed": 284, "cautious": 16}, True),
        ({"runs": 300, "agreed": 0, "cautious": 299}, False),  # 299 refusals
        ({}, False),
    ],
)
def test_when_a_share_is_too_low(times: dict[str, int], too_low: bool) -> None:
    assert ENOUGH == 300
    assert shares(**times).too_low is too_low


def test_what_is_printed() -> None:
    assert list(shares(runs=200, agreed=195, cautious=5).lines()) == [
        "legal: 205 of 400 draws judged, 51.2% (at least 25%)",
        "agreed with: 195 of 200 refusals judged, 97.5% (too few to hold to 95%)",
    ]
    assert next(shares().lines()) == "legal: 0 of 0 draws judged, none (too few to hold to 25%)"


@pytest.mark.parametrize(("verdict", "status"), [(LEGAL, 0), (ILLEGAL, 1)])
def test_a_run_ends_so(
    verdict: Verdict,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """All draws are legal and run, or all of them are refused, and rightly."""
    said = Outcome(verdict, "box" if verdict.why else None)
    monkeypatch.setattr(run, "ask", lambda *_: (unscheduled(), said))
    assert run.main(["--count", str(ENOUGH), "--out", str(tmp_path / "found.json")]) == status
    assert f"legal: {ENOUGH * (not status)} of {ENOUGH} draws judged" in capsys.readouterr().out
