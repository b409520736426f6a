"""The fixture ``driver``: launches without a GPU."""

from __future__ import annotations

import pytest

from tests.lowering.cuda.fake_driver import Driver, installed


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """What is launched with is noted."""
    return installed(monkeypatch)
