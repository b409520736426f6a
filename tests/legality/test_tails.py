"""Which tails the oracle lets all sides run through together, and which they must cut."""

from __future__ import annotations

import pytest

from tests.epilogues import RESIDUAL
from tests.legality.agreement import outcome
from tests.legality.builder import ON_TIDY, P, matmul
from tests.legality.by_hand.parts import apart, fragments
from tests.legality.oracle import Verdict
from wsched.fusion import WarpSpecialized


def test_rows_are_run_through_where_the_loads_count_more_columns_than_there_are() -> None:
    """Half of the last tile may have no rows: whose turn it is goes on. The loads round up the
    columns of tiles to threes, which nobody else does.
    """
    m = matmul(by_tma=False)
    made, after = apart(m)
    m.tile(128, 32, 16)
    m.run(m.every, "Mo", P.BIDx)
    m.split(m.loads, "No", 3, "no ni")
    m.merge(m.loads, "no ni", "No")
    m.steps("No k")
    m.stage(3, 1)
    m.split(after, "Mi", 64, "row Mi")
    m.run(after, "row", P.TIDy)
    m.order((m.acc,), "Mo No")
    m.wgmma()
    fragments(m, made, "Mo No m64")
    fragments(m, after, "Mo No row")
    m.s.circular_buffer(made[-1], 3, 1, WarpSpecialized(P.TIDy, None, 3))
    m.s.inline_at(m.acc, "No")
    said = outcome(m.s.fusion)
    assert (said.oracle, said.fault, said.ran) == (Verdict(), None, True)


@pytest.mark.slow
def test_columns_are_run_through_where_the_loads_count_more_of_their_tiles_than_there_are() -> None:
    """Half of the last tile may have no columns: whose turn it is goes on, for each half of the
    rows. The loads round up the tiles, which nobody else does.
    """
    m = matmul(RESIDUAL, by_tma=False, ring=True)
    m.tile(128, 32, 16)
    m.run(m.every, "Mo", P.BIDx)
    m.split(m.loads, "No", 2, "no ni")
    m.merge(m.loads, "no ni", "No")
    m.steps("No k")
    m.stage(3, 1)
    m.split(m.rings, "Ni", 16, "chunk Ni")
    m.split(m.rings, "Mi", 64, "rows Mi")
    m.order(m.rings, "Mo No rows chunk")
    m.steps("No rows chunk", m.rings)
    m.fill(m.rings, 2, 1, ON_TIDY)
    m.share("Ni", 16, "column", P.TIDy)
    m.share("Mi", 64, "row", P.TIDz)
    m.order(m.compute, "Mo No row column")
    m.fragments("column", 16)
    m.inline("column")
    said = outcome(m.s.fusion)
    assert (said.oracle, said.fault, said.ran) == (Verdict(), None, True)
