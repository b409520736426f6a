"""Prices of sweeps: by bytes where accesses are wide, by accesses where they are not."""

from __future__ import annotations

import pytest

from tests.lowering.sweep.sweeps import masked
from wsched.choose.nvfuser_cost import pointwise_us
from wsched.choose.sweep_cost import accesses_us
from wsched.run.walk import by_rows

BYTES = 2 * 8191 * 4095


def test_wide_accesses_cost_their_bytes() -> None:
    assert accesses_us([(BYTES, 512, False)] * 3) == pytest.approx(pointwise_us(3 * BYTES))
    assert accesses_us([]) == pointwise_us(0)


def test_narrow_accesses_as_measured() -> None:
    """Of 2 bytes, side by side as nvFuser's and 16 bytes apart: a residual's times on an H200."""
    assert accesses_us([(BYTES, 64, False)] * 3) == pytest.approx(53.5, abs=0.5)
    assert accesses_us([(BYTES, 64, True)] * 3) == pytest.approx(189.7 + 3, rel=0.01)
    assert accesses_us([(2 * BYTES, 128, True)]) == pytest.approx(accesses_us([(BYTES, 64, True)]))


def test_rows_decide() -> None:
    """A sweep of odd rows is dearer than one of as many bytes in even ones, a mask's bytes most."""
    even, odd = (by_rows(masked(), sizes) for sizes in ((4096, 4096), (4097, 4095)))
    assert even is not None and odd is not None
    assert accesses_us(odd.accessed()) > 1.05 * accesses_us(even.accessed())
    by_type = [moved / wide for moved, wide, _ in odd.accessed() if moved > 1 << 20]
    assert max(by_type) == pytest.approx(min(by_type))
