"""Summaries as steps of a program: text, rules, properties."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Var
from tests.lowering.summary.summaries import rms
from wsched.program.parse import parse_program
from wsched.program.program import Buffer, Program, SummaryStep
from wsched.program.properties import batch_invariant, deterministic
from wsched.program.text import print_program
from wsched.program.verify import verify

M, N = Var("M"), Var("N")
S, X = Buffer("s"), Buffer("x", DType.BF16, (M, N))
Y = Buffer("y", DType.F32, (M,))
STEP = SummaryStep("norm", rms(2, (1,)), (S, X), (Y,))


def program(step: SummaryStep) -> Program:
    return Program((S, X), (step,), step.writes)


def test_text() -> None:
    text = print_program(program(STEP))
    assert "  summary norm(s, x) -> y\n" in text
    assert parse_program(text, {"norm": STEP.summary}) == program(STEP)


def test_properties() -> None:
    """A row's bits are its own; a column's depend on how many rows there are."""
    assert deterministic(program(STEP)) and batch_invariant(program(STEP))
    over_rows = replace(STEP, summary=rms(2, (0,)), writes=(replace(Y, shape=(N,)),))
    verify(program(over_rows))
    assert deterministic(program(over_rows)) and not batch_invariant(program(over_rows))


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (replace(STEP, reads=(X,)), "it reads 1 buffers, the summary 2"),
        (replace(STEP, writes=(replace(Y, dtype=DType.BF16),)),
         "y has elements of type bf16, the summary f32"),
        (replace(STEP, summary=rms(3, (1,))), "x has 2 dimensions, the summary 3"),
        (replace(STEP, reads=(X, X)), "x has elements of type bf16, the summary f32"),
    ],
)  # fmt: skip
def test_refused(step: SummaryStep, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        verify(program(step))
    assert (error.value.rule, error.value.why) == ("kernel", why)
