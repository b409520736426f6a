"""Loops of the compute side that count one loop of the load side: one loop of the kernel."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.nodes import For, Section
from lowering.kernel.visit import walk
from lowering.nest.lower import lower
from tests.legality.builder import Matmul, P, matmul
from wsched.schedule.plan import make_plan

ROW_SUMS = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    y = fd.ops.linear(x, w)
    wide = fd.ops.cast(y, dtype=DataType.Float)
    sums = fd.ops.sum(wide, dims=[1], keepdim=False, dtype=DataType.Null)
    fd.add_output(y)
    fd.add_output(sums)
"""


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


def sums_from_tile_to_tile() -> Matmul:
    """A CTA has all tiles of a row of them, and the sums of their rows are no parts of results."""
    m = matmul(ROW_SUMS)
    *stored, result = m.epilogue
    sums = m.s.cache_before(result)
    products, epilogue = (*m.loads, m.acc), (*stored, sums)
    m.split((*products, *epilogue, result), "M", 64, "Mo Mi")
    m.split((*products, *epilogue), "N", 64, "No Ni")
    m.split(products, "K", 32, "k Ki")
    m.order(products, "Mo No k")
    m.order(epilogue, "Mo No")
    m.run((*products, *epilogue, result), "Mo", P.BIDx)
    m.steps("No k")
    m.stage(3, 2)
    m.wgmma()
    m.chunks("No", who=epilogue)
    m.split((result,), "Mi", 64, "m64 M")
    m.run((result,), "M", P.Mma)
    for tv in (stored[1], stored[0], m.acc):
        m.s.inline_at(tv, "No")
    return m


def test_nothing_is_reduced_over_them() -> None:
    plan = make_plan(sums_from_tile_to_tile().s.fusion)
    with pytest.raises(UnsupportedError) as error:
        lower(plan, "k")
    assert error.value.what == "T11 reduced over loop No, which steps through a ring"
    assert error.value.supported == "reductions within a tile: rfactor"
