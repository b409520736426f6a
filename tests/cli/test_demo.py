"""The demo: every step is there, fits the page, and its exit status is the verdict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from lowering.cuda.nvrtc import nvrtc_version
from lowering.ground.errors import UnsupportedError
from tests.conftest import Golden
from wsched.cli import demo
from wsched.cli.check import Outcome
from wsched.front.sizes import Extents
from wsched.fusion import Fusion


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The demo from the text of its definition, on the CPU, with a cache of its own."""
    monkeypatch.setattr(demo, "_definition", lambda: (demo.LINEAR, "its text"))
    monkeypatch.setattr(demo, "device", lambda: "cpu")
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(tmp_path / "cache"))
    try:
        nvrtc_version()
    except UnsupportedError as e:
        pytest.skip(str(e))
    return tmp_path / "dumps"


@pytest.mark.slow
def test_demo(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run_demo(small) == 0
    lines = capsys.readouterr().out.splitlines()
    steps = [line for line in lines if line[:1].isdigit()]
    assert [s[:2] for s in steps] == ["1.", "2.", "3.", "4."]
    assert sum("load T6, T7 (ring," in s and s.endswith("compute") for s in lines) == 1
    assert any(line.startswith("   RIGHT: 256 x 512 BFloat16 result against ") for line in lines)
    (folder,) = small.iterdir()
    assert any(str(folder) in line for line in lines)
    assert len(list(folder.iterdir())) >= 20
    assert all(len(s) <= 100 for s in lines if str(small) not in s)


@pytest.mark.slow
def test_exit_status_is_the_verdict(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome(False, 1.0, 0.1, 0.0, "WRONG: made so\n")
    monkeypatch.setattr(demo, "check", lambda kernel, inputs: outcome)
    assert demo.run_demo(small) == 1
    assert "   WRONG: made so\n" in capsys.readouterr().out


def test_what_it_prints_where_dumps_cannot_be_written(
    small: Path, capsys: pytest.CaptureFixture[str], golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """All of it, without what another machine or library says otherwise."""
    small.write_text("a file where the folder should be")
    made = demo.random_inputs
    seeds = list[int]()

    def seen(fusion: Fusion, extents: Extents, seed: int, where: str) -> list[torch.Tensor]:
        seeds.append(seed)
        return made(fusion, extents, seed, where)

    monkeypatch.setattr(demo, "random_inputs", seen)
    assert (demo.run_demo(small), seeds) == (0, [0])
    text = capsys.readouterr().out
    for place in (
        rf"because (.*/){small.name}\S*",
        r"against (\w+) in",
        r"norm\) (\S+),",
        r"in (\S+) s$",
    ):
        text, count = re.subn(place, lambda m: m[0].replace(m[1], "..."), text, flags=re.M)
        assert count == 1, place
    assert text == golden
