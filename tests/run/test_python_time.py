"""How long Python takes from a definition to CUDA text, in process time."""

from __future__ import annotations

import time

import pytest

from tests.epilogues import GELU
from tests.schedules import SCHEDULES, definition
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import compile_fusion

BOUND_MS = 240
"""Three times what it may take on a machine with nothing else to do."""


def milliseconds(text: str, name: str) -> float:
    begin = time.process_time()
    assert compile_fusion(build_fusion(record_text(text)), SCHEDULES[name]).source
    return 1e3 * (time.process_time() - begin)


@pytest.mark.parametrize("text", [definition(), GELU], ids=["plain", "gelu"])
@pytest.mark.parametrize("name", ["coop_128x256", "dynamic_cluster_pingpong"])
def test_before_nvrtc(name: str, text: str) -> None:
    """The best of five: process time counts what others do to the caches."""
    assert min(milliseconds(text, name) for _ in range(5)) < BOUND_MS
