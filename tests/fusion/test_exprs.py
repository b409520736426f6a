"""Expressions of a fusion by what they make and read, and what shares them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import InternalError
from tests.schedule.fusions import linear
from wsched.fusion import Exprs, MmaOp, inputs_of
from wsched.schedule.schedule import Schedule


def test_by_what_they_make_and_read() -> None:
    fusion = linear()
    for e in fusion.exprs:
        assert fusion.definition(e.output) is e
        assert all(e in fusion.uses(name) for name in inputs_of(e))
    assert sum(len(fusion.uses(n)) for n in fusion.names) == sum(
        len(inputs_of(e)) for e in fusion.exprs
    )
    assert fusion.definition("T0") is None
    assert fusion.uses("T5") == ()
    assert fusion.mmas == tuple(e for e in fusion.exprs if isinstance(e, MmaOp))


def test_what_is_read_twice_by_one_is_read_by_one() -> None:
    (mma,) = linear().mmas
    twice = Exprs((replace(mma, b=mma.a),))
    assert twice.reading == {mma.a: (twice[0],)}


def test_states_of_a_schedule_share_them() -> None:
    s = Schedule(linear())
    s.split("T4", 0, 128)
    before = s.fusion.exprs
    s.split("T4", 1, 64)
    assert s.fusion.exprs is before
    s.cache_before("T5")
    assert s.fusion.exprs is not before
    assert s.fusion.definition("T5") != linear().definition("T5")


def test_any_tuple_becomes_one() -> None:
    fusion = linear()
    fewer = replace(fusion, exprs=tuple(fusion.exprs[:-1]), history=())
    assert (type(fewer.exprs), fewer.definition("T5")) == (Exprs, None)


@pytest.mark.parametrize("name", ["T6", "T-1", "T", "", "U0", "T 0", "T00", "Tx"])
def test_names_of_no_tensor(name: str) -> None:
    fusion = linear()
    assert (fusion.has(name), fusion.find(name)) == (False, None)
    with pytest.raises(InternalError, match="no tensor"):
        fusion.tensor(name)
