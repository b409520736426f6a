"""The fusion dump."""

from __future__ import annotations

import pytest

from lowering.ground.errors import InternalError
from lowering.ground.expr import Binary, Const, Special, Var
from tests.schedule.fusions import COOPERATIVE, linear
from wsched.fusion import PrimitiveCall, fusion_text, history_text, nest_text
from wsched.schedule import schedule_matmul


def test_unscheduled(golden: object) -> None:
    assert fusion_text(linear(cast="Float")) == golden


def test_allocation(golden: object) -> None:
    """MN-major operands, and a result by columns: the product is [N, M]."""
    assert fusion_text(linear(layout="nt", by_columns=True)) == golden


def test_scheduled(golden: object) -> None:
    assert fusion_text(schedule_matmul(linear(), COOPERATIVE)) == golden


def test_history(golden: object) -> None:
    assert history_text(schedule_matmul(linear(), COOPERATIVE)) == golden


def test_nest() -> None:
    assert nest_text(linear().tensor("T4")) == (
        "T4_l_float:\n"
        "  0: for i10 = M [Serial] in 0 .. M\n"
        "  1: for i11 = N [Serial] in 0 .. N\n"
        "  2: for i12 = K [Serial] in 0 .. K"
    )


def test_a_call_is_python() -> None:
    ctas = Special("nctaid.x") // 2
    call = PrimitiveCall("split", ("T3", 0, ctas), (("labels", ("a", "b")),))
    assert str(call) == "split('T3', 0, Special('nctaid.x') // 2, labels=('a', 'b'))"
    nested = Binary("-", Var("M"), Binary("-", Const(3), Var("N")))
    assert str(PrimitiveCall("f", (nested,))) == "f(Var('M') - (3 - Var('N')))"
    assert (
        str(PrimitiveCall("f", (Binary("ceildiv", Var("M"), Const(3)),)))
        == "f(ceildiv(Var('M'), 3))"
    )


def test_unknown_tensor_is_a_defect() -> None:
    with pytest.raises(InternalError, match="fusion: no tensor T9 among T0, T1, T2, T3, T4, T5"):
        linear().tensor("T9")
