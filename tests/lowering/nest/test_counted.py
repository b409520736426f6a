"""Loops of the compute side that count one loop of the load side: one loop of the kernel."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.nodes import For, Section
from lowering.kernel.visit import walk
from lowering.nest.lower import lower
from tests.legality.builder import Matmul, matmul
from wsched.schedule.plan import make_plan


def pairs_of_tiles() -> Matmul:
    """The tiles of a CTA two by two, of which the last pair may have one."""
    m = matmul()
    m.tile(64, 64, 32)
    m.deal()
    m.steps("tile k")
    m.stage(3, 2)
    m.split(m.compute, "tile", 2, "pair tile")
    m.order(m.compute, "cta pair tile")
    m.fragments("tile", 64)
    m.inline("tile")
    return m


def test_they_end_together() -> None:
    kernel = lower(make_plan(pairs_of_tiles().s.fusion), "k")
    (compute,) = (s for s in kernel.body if isinstance(s, Section) and s.name == "compute")
    loops = [(s.var.name, str(s.stop)) for s in walk(compute.body) if isinstance(s, For)]
    assert loops == [("tile", "tiles"), ("k", "n_k")]


def test_nothing_is_computed_between_them() -> None:
    """Here the second tile of a pair is rounded behind both sums."""
    m = pairs_of_tiles()
    rounded = m.epilogue[0]
    m.s.inline_at(rounded, "pair")
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(m.s.fusion), "k")
    assert error.value.what == "T4, T9, T8, T5 between the loops pair, tile"
    assert error.value.supported == "nothing between loops that end together"
