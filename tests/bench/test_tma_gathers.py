"""Cases of rows by index, their numbers, figures and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.machine.run import run_kernel
from wsched.bench.tma.beside import Beside
from wsched.bench.tma.fills import Boxes, Pieces
from wsched.bench.tma.gather import Gather, gather_kernel
from wsched.bench.tma.gathers import (
    ORDERS,
    TOKENS,
    GatherCase,
    GatherFigure,
    GpuGather,
    cycles_of,
    gather_cases,
    gather_tables,
    measure_gathers,
    numbers_of,
)

GATHER = Gather(128, Boxes(1, 4))


def test_cases() -> None:
    every = list(gather_cases())
    assert len(set(every)) == len(every)
    alone = [c.gather.fill for c in every if c.gather.beside is Beside.NOTHING]
    assert {f.rows for f in alone if isinstance(f, Boxes)} == {2**e for e in range(8)}
    assert {f.warps for f in alone if f.rows == 1 and isinstance(f, Boxes)} == {1, 2, 4}
    for beside in Beside:
        fills = [c.gather.fill for c in every if c.gather.beside is beside]
        assert Pieces() in fills and Boxes(1, 4, held=True) in fills
        assert {c.order for c in every if c.gather.beside is beside} == set(ORDERS)
    assert all(c.gather.ring.stages in (4, 12) for c in every)


@pytest.mark.parametrize("fill", [Boxes(1, 1), Boxes(8, 1), Boxes(104, 1), Pieces()])
def test_numbers(fill: Boxes | Pieces) -> None:
    """Each box is as many rows of the table that follow each other; each band has its own."""
    box, gather = fill.rows, Gather(104, fill)
    ordered, drawn = (numbers_of(GatherCase(order, 1, gather)) for order in ORDERS)
    for numbers in (ordered, drawn):
        assert numbers.dtype == np.int32 and len(numbers) == 132 * 104
        boxes = numbers.reshape(-1, box)
        assert (boxes == boxes[:, :1] + np.arange(box)).all()
        assert numbers.min() >= 0 and numbers.max() < TOKENS
        once = boxes[: TOKENS // box, 0]
        assert len(set(once)) == len(once)
    assert (ordered[: 2 * box] == np.arange(2 * box)).all()
    near = np.abs(np.diff(drawn.reshape(-1, box)[:, 0])) == box
    assert near.mean() < 0.1 and (drawn == numbers_of(GatherCase(ORDERS[1], 1, gather))).all()


def test_figures() -> None:
    case = GatherCase("random", 8, Gather(104, Boxes(2, 4), Beside.PRODUCTS))
    launched = [300.0, 100.0, 200.0], [case.stages * n for n in (900.0, 800.0, 850.0)], 128
    (figure,) = measure_gathers(lambda _: launched, [case])
    assert (figure.us, figure.cycles) == (200.0, 850.0)
    assert figure.to_dict() == {
        "order": "random", "share": 8, "rows": 104, "fill": "box2_warps4", "box": 2, "warps": 4,
        "held": False, "beside": "products", "us": 200.0, "ctas": 128, "cycles": 850.0,
        "bytes_per_cycle": round((104 + 256) * 128 / 850, 2),
    }  # fmt: skip
    (made,) = gather_tables([figure])
    assert str(made.title) == (
        "cycles of a stage of 104 rows by index, products beside (bytes in a cycle)"
    )
    assert [c.header for c in made.columns[3:]] == [
        "in order, for 1", "in order, for 8", "random, for 1", "random, for 8",
    ]  # fmt: skip
    cells = [next(iter(c.cells)) for c in made.columns]
    assert cells == ["2", "4", "read", "–", "–", "–", "850 (54.2)"]


def test_a_table_for_each_of_what_lies_beside() -> None:
    figures = [GatherFigure(c, 1.0, 400.0, 132) for c in gather_cases()]
    made = gather_tables(figures)
    assert [t.row_count for t in made] == [25, 17, 17]
    last = [[*c.cells][-1] for c in made[0].columns]
    assert last == ["16 bytes, cp.async", "4", "held", *["400 (41.0)"] * 4]


def test_the_clock_is_that_of_the_loop() -> None:
    """By the machine's clock, which counts steps: of a CTA that waits longer more."""
    kernel, table = gather_kernel(GATHER), np.zeros((128, 64), np.uint16)
    found = []
    for rounds in (1, 8):
        clock = np.zeros((1, 8, 3, 2), np.int64)
        tensors: dict[str, Any] = {
            "T": table,
            "order": np.arange(128, dtype=np.int32),
            "clock": clock,
        }
        params = {"R": 128, "K": 64, "N": 128, "rounds": rounds, "share": 1}
        run_kernel(kernel, tensors, params, 1, adversary="fair")
        found.append(cycles_of(clock))
    assert 4 * found[0] < found[1]


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    wanted = [
        GatherCase(ORDERS[1], 1, gather)
        for gather in (GATHER, Gather(128, Pieces()), Gather(104, Boxes(1, 4), Beside.PRODUCTS))
    ]
    figures = list(measure_gathers(GpuGather(wanted), wanted))
    assert all(1 < f.bytes_per_cycle < 128 for f in figures)
    assert figures[2].cycles > 832
