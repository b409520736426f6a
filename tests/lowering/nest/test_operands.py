"""Operands of a product that wgmma does not read from a ring: in registers, or refused by name."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.nodes import LdMatrix, MmaTile, SmemRef
from lowering.kernel.visit import walk
from lowering.nest.lower import lower
from lowering.nest.place import Place
from lowering.nest.rules import RULES
from lowering.nest.rules.from_shared import from_shared
from tests.lowering.nest.own import Draft, a_in_registers
from tests.passes.products import machine_code_is_clean
from tests.schedule.fusions import ON_TIDY, TMA, linear
from wsched.front.own import kernel_of
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


def test_a_in_registers_is_read_from_its_stage() -> None:
    """It is of this step: read behind the wait for its ring, in the loop over k."""
    kernel = lower(a_in_registers().plan(), "registers")
    (read,) = (s for s in walk(kernel.body) if isinstance(s, LdMatrix))
    (product,) = (s for s in walk(kernel.body) if isinstance(s, MmaTile))
    assert product.a == read.out and isinstance(product.b, SmemRef)
    assert [(r.name, r.buffers) for r in kernel.rings] == [("ring", ("T7",)), ("aux", ("T6",))]


def test_machine_code_of_a_in_registers() -> None:
    """Neither spills nor wgmmas that wait for each other."""
    assert machine_code_is_clean(kernel_of(a_in_registers()).kernel)


def test_a_in_registers_that_is_no_whole_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement of a product needs all of its K at once, whatever a rule holds."""

    def half(place: Place) -> None:
        from_shared(place)
        value = place.registers.held[place.tensor.name].value
        place.hold(replace(value, type=replace(value.type, cols=32)))

    key = "LdMatrix", (MemoryType.Shared,), MemoryType.Local
    monkeypatch.setitem(RULES, key, half)
    with pytest.raises(UnsupportedError) as error:
        lower(a_in_registers().plan(), "refused")
    assert (error.value.what, error.value.supported) == (
        "T4 = mma(T10, T7) of a part of T10, or of other steps",
        "T10 of 64 x 64, made in the loop over k",
    )


def test_a_in_registers_stored_by_columns() -> None:
    """``ldmatrix`` would give a tile of k x m."""
    draft = Draft(registers=True, layout="nn")
    draft.tile(64, 64, 64)
    draft.deal()
    draft.move(draft.loads[0], "Ki", 3)
    draft.fill("tile", "k")
    draft.multiply()
    draft.store("tile")
    with pytest.raises(UnsupportedError) as error:
        lower(draft.s.plan(), "refused")
    assert (error.value.what, error.value.supported) == (
        "T10 = LdMatrix(T6) of T6, stored by columns", "tiles stored by rows",
    )  # fmt: skip
