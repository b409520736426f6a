"""Sweeps as steps of a program: rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Var
from wsched.importer import record_text
from wsched.importer.sweep import import_sweep
from wsched.program.program import Buffer, Program, SweepStep
from wsched.program.verify import verify

TEXT = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    b = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float)
    y = fd.ops.add(x, b)
    fd.add_output(y)
"""
M, N = Var("M"), Var("N")
X, B = Buffer("x", DType.BF16, (M, N)), Buffer("b", DType.F32, (N,))
Y = Buffer("y", DType.F32, (M, N))
STEP = SweepStep("sum", import_sweep(record_text(TEXT), [(0, 1)]), (X, B), (Y,))


def program(step: SweepStep) -> Program:
    return Program((X, B), (step,), step.writes)


def test_what_fits() -> None:
    verify(program(STEP))


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (replace(STEP, reads=(X,)), "it reads 1 buffers, the sweep 2"),
        (replace(STEP, writes=(Y, replace(Y, name="z"))), "it writes 2 buffers, the sweep 1"),
        (replace(STEP, reads=(B, X)), "b has elements of type f32, the sweep bf16"),
        (replace(STEP, reads=(X, X)), "x has elements of type bf16, the sweep f32"),
        (replace(STEP, writes=(replace(Y, dtype=DType.BF16),)),
         "y has elements of type bf16, the sweep f32"),
        (replace(STEP, writes=(replace(Y, shape=(N,)),)), "y has 1 dimensions, the sweep 2"),
    ],
)  # fmt: skip
def test_refused(step: SweepStep, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        verify(program(step))
    assert (error.value.rule, error.value.why) == ("kernel", why)


SQUARE = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    t = fd.ops.permute(x, dims=[1, 0])
    y = fd.ops.add({a}, {b})
    fd.add_output(y)
"""


@pytest.mark.parametrize(
    ("a", "b", "read", "refused"),
    [("x", "x", True, False), ("t", "t", True, True), ("t", "t", False, False)],
)
def test_in_the_place_of_what_it_reads(a: str, b: str, read: bool, refused: bool) -> None:
    """An element is overwritten by what is computed of it, and of no other one; what the sweep does
    not read it may overwrite as it wants."""
    n = Var("N")
    x, other = (Buffer(name, DType.F32, (n, n)) for name in ("x", "z"))
    sweep = import_sweep(record_text(SQUARE.format(a=a, b=b)), [(0, 1)])
    y = Buffer("y", DType.F32, (n, n), at=x if read else other)
    step = SweepStep("sum", sweep, (x,) * len(sweep.inputs), (y,))
    made = Program((x, other), (step,), (y,))
    if not refused:
        return verify(made)
    with pytest.raises(ScheduleError) as error:
        verify(made)
    assert (error.value.rule, error.value.why, error.value.legal) == (
        "in-place", "y lies at x, elements of which the sweep reads for several",
        ("a buffer of its own for y",),
    )  # fmt: skip
