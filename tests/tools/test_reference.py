"""The API reference: that it can be built, and that what is wrong with its links is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import reference

import wsched
from wsched.schedule.primitives.replay import PRIMITIVES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_it_is_built_and_all_links_lead_somewhere(tmp_path: Path) -> None:
    pytest.importorskip("pdoc")
    pytest.importorskip("torch")  # types of signatures
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(ROOT / "tools" / "reference.py"), str(tmp_path)],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'wsched.html'}\n"), done.stderr
    page = reference.Links((tmp_path / "wsched.html").read_text())
    assert set(wsched.__all__) <= page.places
    assert {f"Schedule.{name}" for name in PRIMITIVES} <= page.places  # of a base without a page
    assert "#execute" in page.links  # docstrings name each other


def test_what_is_wrong_with_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "public", lambda: SimpleNamespace(__all__=["run", "walk"]))
    (tmp_path / "wsched.html").write_text(
        '<a id="run" href="#run">x</a><a href="#gone">x</a><a href="other.html#there">x</a>'
        '<a href="other.html#not%20there">x</a><img src="none.png"><a href="https://x.org/#y">x</a>'
    )
    (tmp_path / "other.html").write_text('<p id="there"><a href="wsched.html">x</a>')
    assert list(reference.faults(tmp_path)) == [
        "wsched.html: #gone: there is no such place",
        "wsched.html: other.html#not%20there: there is no such place",
        "wsched.html: none.png: there is no such file",
        "wsched.html: walk has no place",
    ]
