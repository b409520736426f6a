"""Calls for one tensor or several, one after the other."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import linear
from wsched.fusion import LoadStoreOpType, MemoryType
from wsched.schedule import Schedule
from wsched.schedule.cursor import Cursor

TMA = LoadStoreOpType.CpAsyncBulkTensorTile


def test_a_call_is_made_on_each_in_turn() -> None:
    s, t = Schedule(linear()), Schedule(linear())
    Cursor(s, s.a, (s.b,)).split("K", 64, labels=("k", "slice")).reorder(x for x in ("k", "M"))
    for tv in (t.a, t.b):
        t.split(tv, "K", 64, labels=("k", "slice"))
    for tv in (t.a, t.b):
        t.reorder(tv, ["k", "M"])
    assert s.history == t.history and s.fusion == t.fusion
    assert Cursor(s, s.a, (s.b,)).loops == ("k", "M", "N", "slice")


def test_what_makes_tensors_gives_those() -> None:
    s = Schedule(linear())
    given = s.a, s.b
    loads = Cursor(s, s.a, (s.b,)).cache_after(TMA).set_memory_type(MemoryType.Shared)
    assert loads.names == (s.a, s.b) and set(loads.names).isdisjoint(given)
    assert all(s.tensor(tv).memory is MemoryType.Shared for tv in loads.names)
    assert str(loads) == "\n".join(str(Cursor(s, tv)) for tv in loads.names)


def test_what_is_refused_for_one_is_made_for_none() -> None:
    """The accumulator has no loop K behind this; the operand was asked first."""
    s = Schedule(linear())
    Cursor(s, s.acc).split("K", 64)
    before = s.history
    with pytest.raises(ScheduleError) as error:
        Cursor(s, s.a, (s.acc,)).split("K", 32)
    assert error.value.why == f"{s.acc} has no loop labelled 'K'"
    assert s.history == before
