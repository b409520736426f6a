"""Prices of sweeps: by bytes where accesses are wide, by accesses where they are not."""

from __future__ import annotations

import pytest

from tests.lowering.sweep.sweeps import masked
from wsched.choose.arithmetic import instructions_of
from wsched.choose.nvfuser_cost import pointwise_us
from wsched.choose.sweep_cost import accesses_us, once
from wsched.run.walk import by_rows

BYTES = 2 * 8191 * 4095
ALL = frozenset((0, 1))


def test_wide_accesses_cost_their_bytes() -> None:
    assert accesses_us([(BYTES, 512, False)] * 3) == pytest.approx(pointwise_us(3 * BYTES))
    assert accesses_us([]) == pointwise_us(0)


def test_narrow_accesses_as_measured() -> None:
    """Of 2 bytes side by side, as nvFuser's of a residual, and of a transposed matrix (H200)."""
    assert accesses_us([(BYTES, 64, False)] * 3) == pytest.approx(53.5, abs=0.5)
    moved = 2 * 8192 * 4096
    both = [(moved, 64, True), (moved, 512, False)]
    assert accesses_us(both, 2 * moved / 4) == pytest.approx(38.4, rel=0.02)


WIDE = 8192 * 4096


@pytest.mark.parametrize(
    ("moved", "operations", "us"),
    [
        (4 * WIDE, {"erf": 1, "mul": 3, "add": 1}, 44.4),
        (4 * WIDE, {"sin": 1, "add": 1}, 48.7),
        (8 * WIDE, {"exp": 2, "div": 2, "sub": 2, "max": 2, "sum": 2}, 86.5),
        (6 * WIDE, {"add": 1}, 49.6),
    ],
    ids=["gelu", "sine", "softmax", "residual"],
)
def test_what_is_computed_costs_as_measured(
    moved: int, operations: dict[str, int], us: float
) -> None:
    """NvFuser's kernels, of which the bytes alone are 34, 34, 65 and 50 us (H200)."""
    work = instructions_of((op, count * WIDE) for op, count in operations.items())
    assert pointwise_us(moved, work) == pytest.approx(us, rel=0.03)


def test_rows_decide() -> None:
    """A sweep of odd rows is dearer than one of as many bytes in even ones, a mask's bytes most."""
    even, odd = (by_rows(masked(), sizes) for sizes in ((4096, 4096), (4097, 4095)))
    assert even is not None and odd is not None
    assert accesses_us(odd.accessed()) > 1.05 * accesses_us(even.accessed())
    by_type = [moved / wide for moved, wide, _ in odd.accessed() if moved > 1 << 20]
    assert max(by_type) == pytest.approx(min(by_type))


def test_views_of_one_tensor_read_no_more_than_it_has() -> None:
    """Two halves and the whole; of a half alone its own bytes."""
    found = [
        (64, 512, False),
        (64, 256, False),
        (128, 512, True),
        (32, 128, False),
        (99, 512, False),
    ]
    has = {"x": 128, "table": 64}
    sources = ["x", "x", "x", "table"]
    assert [n for n, *_ in once(sources, has, found)] == [64, 64, 0, 32, 99]
    assert [how for _, *how in once(sources, has, found)] == [how for _, *how in found]
    assert once(sources, has, ()) == ()
