"""The primitive ``set_allocation_domain``: operands that lie in memory by columns."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.batches import batched
from tests.schedule.fusions import cached
from tests.schedules import definition
from wsched.front.known import import_fusion
from wsched.fusion import PrimitiveCall
from wsched.schedule import Schedule


def test_columns_first_and_back() -> None:
    s = Schedule(import_fusion(definition()))
    rows, columns = s.tensor("T0").logical
    assert s.tensor("T0").in_memory == (rows, columns)
    s.set_allocation_domain("T0", (1, 0))
    assert s.tensor("T0").in_memory == s.tensor("T0").allocation == (columns, rows)
    assert s.history[-1] == PrimitiveCall("set_allocation_domain", ("T0", (1, 0)))
    s.set_allocation_domain("T0", (0, 1))
    assert s.tensor("T0").in_memory == (rows, columns) and s.tensor("T0").allocation == ()


def test_of_three_dimensions() -> None:
    s = Schedule(import_fusion(batched()))
    (tv,) = (b.tensor for b in s.fusion.inputs[:1])
    batch, rows, columns = s.tensor(tv).logical
    s.set_allocation_domain(tv, (0, 2, 1))
    assert s.tensor(tv).in_memory == (batch, columns, rows)


ONCE = "does not name each dimension of"
OPERANDS = "is no operand in global memory, those are T0, T1"


@pytest.mark.parametrize(
    ("tv", "order", "why"),
    [
        ("T0", (0, 0), f"(0, 0) {ONCE} T0, 0 to 1, once"),
        ("T0", (0,), f"(0,) {ONCE} T0, 0 to 1, once"),
        ("T0", (0, 1, 2), f"(0, 1, 2) {ONCE} T0, 0 to 1, once"),
        ("T0", (1, 2), f"(1, 2) {ONCE} T0, 0 to 1, once"),
        ("T5", (1, 0), f"T5 {OPERANDS}"),
        ("T6", (2, 1, 0), f"T6 {OPERANDS}"),  # a copy is the kernel's to lay out
        ("T5", (0, 0), f"T5 {OPERANDS}; (0, 0) {ONCE} T5, 0 to 1, once"),
    ],
)
def test_refused(tv: str, order: tuple[int, ...], why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        cached().set_allocation_domain(tv, order)
    assert (error.value.rule, error.value.why) == ("allocation", why)
