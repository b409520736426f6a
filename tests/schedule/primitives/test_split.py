"""split: before, after, refusals."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Special
from tests.schedule.fusions import COOPERATIVE, linear
from wsched.fusion import ParallelType, nest_text
from wsched.schedule import parallelize, replay, schedule_matmul, split


def test_split() -> None:
    before = linear()
    after = split(before, "T5", 0, 128)
    assert nest_text(after.tensor("T5")) == (
        "T5_g___bfloat:\n"
        "  0: for i15 = Mo [Serial] in 0 .. ceildiv(M, 128)\n"
        "  1: for i16 = Mi [Serial] in 0 .. 128\n"
        "  2: for i14 = N [Serial] in 0 .. N"
    )
    assert [str(r) for r in after.history] == ["split('T5', 0, 128)"]
    assert before.history == ()


def test_outer_split_by_an_expression() -> None:
    f = split(linear(), "T5", 1, Special("nctaid.x"), inner_split=False, labels=("cta", "N"))
    assert nest_text(f.tensor("T5")).splitlines()[2:] == [
        "  1: for i15 = cta [Serial] in 0 .. %nctaid.x",
        "  2: for i16 = N [Serial] in 0 .. ceildiv(N, %nctaid.x)",
    ]
    assert str(f.history[0]) == (
        "split('T5', 1, Special('nctaid.x'), inner_split=False, labels=('cta', 'N'))"
    )


def test_refused_with_all_reasons() -> None:
    with pytest.raises(ScheduleError) as error:
        split(linear(), "T5", 2, 0)
    assert error.value.rule == "split"
    assert str(error.value) == (
        "ScheduleError[split]: split('T5', 2, 0): T5 has axes 0 to 1, not 2\n"
        "  in:\n"
        "    T5_g___bfloat:\n"
        "      0: for i13 = M [Serial] in 0 .. M\n"
        "      1: for i14 = N [Serial] in 0 .. N"
    )


def test_unknown_tensor() -> None:
    with pytest.raises(ScheduleError) as error:
        split(linear(), "T9", 0, 2)
    assert str(error.value) == (
        "ScheduleError[tensor]: split('T9', 0, 2): there is no tensor T9\n"
        "  legal here: T0; T1; T2; T3; T4; T5"
    )


def test_parallel_loop_is_refused() -> None:
    f = parallelize(linear(), "T5", 0, ParallelType.BIDx)
    with pytest.raises(ScheduleError) as error:
        split(f, "T5", 0, 2)
    assert error.value.why == "loop M is parallelized on BIDx"


def test_shared_and_buffered_loops_are_refused() -> None:
    f = schedule_matmul(linear(), COOPERATIVE)
    with pytest.raises(ScheduleError) as error:
        split(f, "T4", 1, 2)
    assert error.value.why == "T4 is inlined at 3: its outer loops are shared"
    with pytest.raises(ScheduleError) as error:
        split(f, "T6", 1, 2)
    assert error.value.why == "T6 is circular-buffered: its loops are settled"


def test_dealt_out_at_run_time() -> None:
    f = split(linear(), "T5", 0, Special("nctaid.x"), labels=("tile", "cta"), dynamic=True)
    assert str(f.history[0]) == (
        "split('T5', 0, Special('nctaid.x'), labels=('tile', 'cta'), dynamic=True)"
    )
    (step,) = f.tensor("T5").transforms
    assert str(step).endswith("%nctaid.x, dynamic -> " + f"{step.outputs[0]}, {step.outputs[1]}")
    assert replay(linear(), f.history) == f
