from __future__ import annotations

from pathlib import Path

import pytest

from lowering.ground.errors import UnsupportedError
from tests.pictures import shown
from tests.trace.drawn import drawn
from tests.trace.test_spans import PING_PONG
from wsched.trace.spans import COLUMNS
from wsched.trace.timeline import Trace


def test_a_row_for_each_warpgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From above, each phase at its time, and once in the legend, outer ones first."""
    seen = drawn(PING_PONG.plot, tmp_path, monkeypatch)
    assert seen.rows == ["CTA 0 compute[0]", "CTA 0 compute[1]", "CTA 0 load[0]"]
    assert seen.bars["CTA 0 compute[1]"] == {
        ("turn", 0, 40), ("main_loop", 40, 55), ("epilogue", 55, 75)
    }  # fmt: skip
    assert seen.bars["CTA 0 load[0]"] == {("load", 0, 50)}
    assert seen.names == [*COLUMNS]
    assert (seen.title.partition(":")[0], seen.unit) == ("k", "time [ns]")


def test_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: object) -> None:
    assert shown(PING_PONG.plot, tmp_path, monkeypatch) == golden


def test_of_no_spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = drawn(Trace("k", "steps", ()).plot, tmp_path, monkeypatch)
    assert (seen.rows, seen.names, seen.title, seen.unit) == ([], [], "k", "time [steps]")


@pytest.mark.usefixtures("no_matplotlib")
def test_without_matplotlib(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as error:
        PING_PONG.plot(tmp_path / "f.png")
    assert str(error.value) == (
        "a picture without matplotlib is not supported; supported: wsched[bench]. "
        "pip install 'wsched[bench]'"
    )
    assert not (tmp_path / "f.png").exists()
