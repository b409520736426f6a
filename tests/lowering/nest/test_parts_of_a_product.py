"""Loops over columns inside a k slice: a statement for each of their trips, in their order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.nodes import MmaTile
from lowering.kernel.visit import walk
from lowering.nest.lower import lower
from tests.legality.builder import Matmul, matmul
from tests.on_machine import Problem, exact, operands, run
from tests.schedules import definition
from wsched.front.own import kernel_of
from wsched.schedule.plan import make_plan


def halves(order: str, layout: str = "tn", columns: int = 64) -> Matmul:
    """Tiles of 128 x 128 and slices of 32; inside of one the loops are in this order, that over
    ``columns`` at a time the ``half``.
    """
    m = matmul(definition(layout=layout))
    m.tile(128, 128, 32)
    m.deal()
    m.steps("tile k")
    for load, stored, by_columns in zip(m.loads, layout, "nt", strict=True):
        if stored == by_columns:
            m.order((load,), "cta tile·k Ki")
    m.stage(3, 2)
    m.split((m.acc,), "Ni", columns, "half Ni")
    m.fragments("tile", 32)
    m.order((m.acc,), f"cta tile k {order}")
    m.inline("tile")
    return m


def products(m: Matmul) -> list[tuple[int, int | None, int, str]]:
    """First column, how many, K and whether it adds up, of each statement."""
    kernel = lower(make_plan(m.s.fusion), "k")
    found = [s for s in walk(kernel.body) if isinstance(s, MmaTile)]
    for before, after in pairwise(found):
        assert after.acc == before.out
    return [(s.col, s.cols, s.k, str(s.accumulate)) for s in found]


def test_columns_outside_of_k() -> None:
    assert products(halves("half k16 m64")) == [(0, 64, 32, "0 < k"), (64, 64, 32, "0 < k")]


def test_columns_inside_of_k() -> None:
    assert products(halves("k16 half m64")) == [
        (0, 64, 16, "0 < k"), (64, 64, 16, "0 < k"), (0, 64, 16, "true"), (64, 64, 16, "true"),
    ]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("layout", ["tn", "nn", "nt", "tt"])
@pytest.mark.parametrize("order", ["half k16 m64", "k16 half m64"])
def test_runs_right(order: str, layout: str) -> None:
    problem = Problem(200, 136, 104, 3)
    a, b = operands(problem, "bf16", 0, integer=True)
    d = run(kernel_of(halves(order, layout).s), problem, a, b, "bf16")
    assert np.array_equal(d, exact(a, b).astype(d.dtype))


def test_columns_inside_of_rows() -> None:
    with pytest.raises(UnsupportedError) as error:
        products(halves("k16 m64 half"))
    assert error.value.what.startswith("k16 2 [Serial], m64 2 [Serial], half 2 [Serial], M 64")
    assert error.value.supported == "[N / n, K / 16, M / 64 | Mma: 64, n, 16]"


def test_columns_that_no_fragment_begins_with() -> None:
    with pytest.raises(UnsupportedError) as error:
        products(halves("half k16 m64", columns=4))
    assert error.value.what == "4 of the 128 columns of T4 at a time"
    assert error.value.supported.startswith("a multiple of 8, which fragments keep together")
