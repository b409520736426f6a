"""Operands of a product that TMA does not load: refused by their names."""

from __future__ import annotations

from functools import partial

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.nest.lower import lower
from tests.schedule.fusions import ON_TIDY, TMA, linear
from wsched.fusion import LoadStoreOpType, MemoryType, ParallelType
from wsched.schedule import Schedule
from wsched.schedule.cursor import Cursor

P = ParallelType


def written_back() -> Schedule:
    """A goes from its stage to registers and from there to shared memory, where the mma reads."""
    s = Schedule(linear())
    at = partial(Cursor, s)
    loads = a, b = s.cache_after("T2", TMA), s.cache_after("T3", TMA)
    for t in loads:
        s.set_memory_type(t, MemoryType.Shared)
    held = s.cache_after(a, LoadStoreOpType.LdMatrix)
    back = s.cache_after(held, LoadStoreOpType.Set)
    s.set_memory_type(back, MemoryType.Shared)
    after = (s.cache_before("T5", LoadStoreOpType.Set), "T5")
    for t in (a, b, held, back, "T4", *after):
        at(t).split("M", 64).split("N", 64).reorder(["Mo", "No"]).merge("Mo", label="tiles")
        at(t).parallelize("tiles", P.BIDx)
    for t in (a, b, held, back, "T4"):
        at(t).split("K", 64).reorder(["tiles", "Ko"])
    for t in loads:
        at(t).parallelize(["Mi", "Ni", "Ki"], P.Bulk).circular_buffer(4, 2, ON_TIDY)
    for t in (held, back):
        at(t).parallelize(["Mi", "Ni", "Ki"], P.Mma).inline_at("Ko")
    at("T4").split("Ki", 16, labels=("k16", "k")).split("Mi", 64, labels=("m64", "m"))
    at("T4").reorder(["tiles", "Ko", "k16", "m64"]).parallelize(["m", "Ni", "k"], P.Mma)
    for t in after:
        at(t).split("Mi", 64, labels=("m64", "m")).parallelize(["m", "Ni"], P.Mma)
    at(after[0]).inline_at("m64")
    at("T4").inline_at("tiles")
    return s


def test_an_operand_that_fills_no_ring() -> None:
    p = written_back().plan()
    assert [(r.loads, r.readers) for r in p.relations] == [(("T7",), ("T4",)), (("T6",), ("T8",))]
    with pytest.raises(UnsupportedError) as error:
        lower(p, "refused")
    assert (error.value.what, error.value.supported) == (
        "T4 = mma(T9, T7) of T9, which fills no ring",
        "products of what TMA loads into a circular buffer",
    )
    assert "Ko [Serial] in 0 .. ceildiv(K, 64)" in error.value.hint
