from __future__ import annotations

from pathlib import Path

import pytest

from lowering.ground.errors import UnsupportedError
from tests.trace.test_spans import PING_PONG
from wsched.trace.timeline import Trace


@pytest.mark.parametrize("trace", [PING_PONG, Trace("k", "steps", ())], ids=["spans", "none"])
def test_png(trace: Trace, tmp_path: Path) -> None:
    trace.plot(tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("no_matplotlib")
def test_without_matplotlib(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as error:
        PING_PONG.plot(tmp_path / "f.png")
    assert str(error.value) == (
        "a picture without matplotlib is not supported; supported: wsched[bench]. "
        "pip install 'wsched[bench]'"
    )
    assert not (tmp_path / "f.png").exists()
