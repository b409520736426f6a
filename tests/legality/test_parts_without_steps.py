"""Parts of K of which the last one has no steps: what it completes is the others' sums alone."""

from __future__ import annotations

import pytest

from tests.legality.builder import P, matmul
from tests.legality.machine import Problem, compiled, run_wrong


@pytest.mark.parametrize("k", [64, 96, 128, 160])
def test_sums_do_not_go_on_from_tile_to_tile(k: int) -> None:
    """Several tiles for a CTA; of two to five slices of K the third part has none, or one."""
    m = matmul()
    m.tile(64, 32, 32)
    m.deal()
    summed = (*m.loads, m.acc)
    m.split(summed, "k", 1, "ko ki")
    m.merge(summed, "ki ko", "k")
    m.split(summed, "k", 3, "part k", outer=True)
    m.run(summed, "part", P.BIDz)
    m.order(m.loads, "cta part tile k")
    m.steps("tile k")
    m.stage(3, 1)
    m.order(m.compute, "cta tile part k")
    m.fragments("tile", 32)
    m.inline("tile")
    fusion = m.s.fusion
    assert run_wrong(fusion, compiled(fusion), Problem(57, 72, k, 3)) is None
