"""What a benchmark has compiled before it measures, without a compiler."""

from __future__ import annotations

import math

import pytest

from wsched.bench.drawn import build as building
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Kernels", "without_compiling"]

Kernels = list[tuple[str, MatmulParams]]
"""Definitions and schedules."""


def without_compiling(monkeypatch: pytest.MonkeyPatch) -> Kernels:
    """What would be compiled before it is measured; it is chosen by this process alone."""
    wanted: Kernels = []
    monkeypatch.setattr(building, "START_S", math.inf)
    monkeypatch.setattr(building, "build", lambda found, pool, told: wanted.extend(found))
    return wanted
