"""The table of passes: current, and true about the order."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from write_passes import PAGE, paragraphs, places, written

from passes.pipeline import PASSES

NUMBER = {run.__name__: at for at, run in enumerate(PASSES)}


def test_the_page_is_current() -> None:
    page = PAGE.read_text()
    assert page == written(page), "run `python tools/write_passes.py`"


@pytest.mark.parametrize("run", PASSES, ids=lambda run: run.__name__)
def test_a_pass_says_what_it_needs_and_where_it_stands(run: Callable[..., object]) -> None:
    text = " ".join(paragraphs(run))
    assert "Requires:" in text and "Guarantees:" in text
    first, *_, last = paragraphs(run)
    assert first != last and last.split()[0].strip(",") in (
        "First",
        "Before",
        "After",
        "Right",
        "Anywhere",
        "Last",
    )


@pytest.mark.parametrize("run", PASSES, ids=lambda run: run.__name__)
def test_a_pass_stands_where_it_says(run: Callable[..., object]) -> None:
    for side, name in places(run):
        assert (NUMBER[name] < NUMBER[run.__name__]) == (side == "after"), (side, name)
    edges = {"First": 0, "Last,": len(PASSES) - 1}
    at = edges.get(paragraphs(run)[-1].split()[0])
    assert at is None or NUMBER[run.__name__] == at


def test_places_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names on both sides, of several passes; what the next sentence names is no place."""

    def run() -> None: ...

    text = (
        "What.\n\nAfter ``simplify`` (``x``) and ``trace``, before ``expect_tx``. ``clip_boxes``."
    )
    monkeypatch.setattr(sys.modules[__name__], "__doc__", text)
    assert list(places(run)) == [("after", "simplify"), ("after", "trace"), ("before", "expect_tx")]
