"""The estimate of a run's time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ir.text import parse_kernel
from lowering.machine import estimate_seconds
from tests.machine.kernels import matmul_text

KERNEL = parse_kernel(matmul_text())


def estimate(m: int, n: int, k: int, grid: int = 2, limit: float = float("inf")) -> float:
    return estimate_seconds(KERNEL, {"M": m, "N": n, "K": k}, grid, limit=limit)


def test_grows_with_the_work_of_a_cta() -> None:
    one = estimate(256, 64, 1024)
    assert 1.8 < estimate(256, 64, 2048) / one < 2.1
    assert 1.8 < estimate(512, 64, 1024) / one < 2.1
    assert 1.8 < estimate(512, 64, 1024, grid=4) / one < 2.1


def test_grows_with_the_ctas_along_z() -> None:
    extents = {"M": 256, "N": 64, "K": 1024}
    split = replace(KERNEL, splits=3)
    assert estimate_seconds(split, extents, 2) == pytest.approx(3 * estimate(256, 64, 1024))


def test_stops_at_the_limit() -> None:
    assert 1.0 <= estimate(65536, 65536, 65536, limit=1.0) < 1.1
