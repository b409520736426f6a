"""nvFuser without a GPU, and workers that hang or are interrupted, on a machine of any load."""

from __future__ import annotations

import json
import queue
import signal
from collections.abc import Iterator

import pytest

from tests.bench.fakes import HANGS
from tests.doors.dropin.spy import nvfuser
from wsched.bench.method import watch

__all__ = ["nvfuser"]


@pytest.fixture
def announced_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake worker's silence is what it announces, however slow it is before that."""

    def heard(lines: queue.Queue[str | None], seconds: float) -> str | None:
        line = lines.get(timeout=100)
        if line is not None and json.loads(line) == HANGS:
            raise queue.Empty
        return line

    monkeypatch.setattr(watch, "_heard", heard)


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """SIGINT interrupts, also in the background of a shell, which has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
