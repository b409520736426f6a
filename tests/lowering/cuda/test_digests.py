"""Kernels for sm_90a are byte for byte what they were: who works on another target changes none."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import pytest

from tests.schedules import SCHEDULES, definition
from wsched.importer import build_fusion, record_text
from wsched.ladder.climb import climb
from wsched.run.compiled import compile_fusion


def sources() -> Iterator[tuple[str, str]]:
    """Name and CUDA text of each schedule of the tests and of each rung of the ladder."""
    for name, params in SCHEDULES.items():
        yield name, compile_fusion(build_fusion(record_text(definition())), params).source
    for step in climb():
        yield step.rung.name, step.kernel.source


@pytest.mark.slow
def test_texts(golden: str) -> None:
    """A line that differs is a kernel that has changed: ``python -m tests.replay DIR`` in front of
    the change and behind it shows how, for these with epilogues and layouts too.
    """
    lines = [f"{sha256(text.encode()).hexdigest()[:16]} {name}" for name, text in sources()]
    assert "\n".join(lines) == golden
