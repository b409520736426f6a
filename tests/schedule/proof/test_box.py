"""Boxes and fragments: they end with the tile, and hold neighbours."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.legality.agreement import outcome
from tests.legality.builder import matmul
from tests.legality.oracle import Verdict
from tests.schedule.fusions import LOADS
from tests.schedule.whole import EPILOGUE, Tiling, whole
from wsched.fusion import ParallelType
from wsched.schedule import Schedule, make_plan


def one_each(s: Schedule, tv: str) -> None:
    """A CTA for each tile."""
    s.merge(tv, 0, label="tiles")
    s.parallelize(tv, 0, ParallelType.BIDx)


def keep(s: Schedule, tv: str) -> None:
    """The load loop is k alone."""


def every_other_row(s: Schedule, tv: str) -> None:
    """Two warpgroups with every other row of a tile each."""
    one_each(s, tv)
    if tv not in LOADS:
        s.split(tv, s.axis(tv, "Mi"), 2, labels=("Mi", "odd"))
        s.reorder(tv, {s.axis(tv, "odd"): 1})
        s.parallelize(tv, 1, ParallelType.TIDy)


TILINGS = {
    "chunks_of_48": Tiling(one_each, keep, chunk=48, inline=1),
    "rows_of_40": Tiling(one_each, keep, size=(96, 64, 64), rows=40, inline=2),
    "every_other_row": Tiling(every_other_row, keep, size=(128, 64, 64), inline=2),
}


@pytest.mark.parametrize("name", TILINGS)
def test_refused(name: str, golden: object) -> None:
    s = whole(TILINGS[name])
    with pytest.raises(ScheduleError) as error:
        make_plan(s.fusion)
    assert str(error.value) == golden


def test_what_ends_with_the_tensor_may_be_cut() -> None:
    """Tiles need not divide the matrices: behind their ends nothing is read or written."""
    s = whole(Tiling(one_each, keep, inline=1))
    assert [str(s.tensor(tv).loop[0].extent) for tv in EPILOGUE] == [
        "ceildiv(M, 64) * ceildiv(N, 64)"
    ] * 3
    make_plan(s.fusion)


@pytest.mark.slow
def test_a_loop_of_one_iteration_reaches_nowhere() -> None:
    """Tiles in pairs, which two warpgroups take in turns: the loop over pairs of a pair has one
    iteration, and what is rounded up for it is of the loop over pairs.
    """
    m = matmul()
    m.tile(64, 32, 32)
    m.deal()
    m.split(m.every, "tile", 2, "to ti")
    m.split(m.every, "ti", 2, "it turn")
    m.run(m.compute, "turn", ParallelType.TIDy)
    m.steps("to it turn k")
    m.stage()
    m.order(m.compute, "cta to it turn")
    m.fragments("turn", 32)
    m.inline("turn")
    said = outcome(m.s.fusion)
    assert (said.oracle, said.refused, said.fault, said.ran) == (Verdict(), None, None, True)
