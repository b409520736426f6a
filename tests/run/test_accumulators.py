"""Sums in fp16: half the registers, rounded by every instruction, and never unasked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.on_machine import Problem, exact, kernel, operands, run
from tests.proofs import proved
from tests.schedules import SCHEDULES, cooperative, definition, split_k, stream_k
from wsched.cli.check import check, sized_inputs
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import Accumulators, MatmulParams

ODD = Problem(200, 72, 136, 4)


def halves(base: MatmulParams) -> MatmulParams:
    return replace(base, accumulators=Accumulators.Half)


SMALL = halves(cooperative(128, 64, stages=3))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coop_128x64", "pingpong_64x128", "pipelined", "across_128x256"])
@pytest.mark.parametrize("result", ["f16", "f32"])
def test_right_proved_and_without_spills(name: str, result: str) -> None:
    made = kernel(halves(SCHEDULES[name]), "f16", result, "tt" if result == "f32" else "tn")
    a, b = operands(ODD, "f16", 0, integer=True)
    assert np.array_equal(run(made, ODD, a, b, result, races=True).astype("f4"), exact(a, b))
    proved(made.kernel, made.plan)
    assert made.resources.clean


def test_every_instruction_rounds() -> None:
    """2048 of fp16 is even in its last place: with 1 it stays 2048, with 2 more it is 2050."""
    made = kernel(SMALL, "f16", "f32")
    p = Problem(64, 64, 64, 1)
    a, b = np.zeros((64, 64), np.float16), np.ones((64, 64), np.float16)
    a[:, 0], a[:, 16], a[0, 32], a[1, 17] = 2048, 1, 1, 1
    found = run(made, p, a, b, "f32")
    assert found[2, 0] == 2048 and found[0, 0] == 2048 and found[1, 0] == 2050
    assert run(kernel(cooperative(128, 64, stages=3), "f16", "f32"), p, a, b, "f32")[0, 0] == 2050


def test_tiles_that_fp32_has_no_registers_for() -> None:
    """128 rows and 256 columns of one warpgroup: 256 registers of fp32, 128 of fp16."""
    wide = cooperative(256, 256, stages=2)
    with pytest.raises(ScheduleError, match="256 accumulators and"):
        kernel(wide, "f16", "f16")
    made = kernel(halves(wide), "f16", "f16")
    assert made.resources.clean
    a, b = operands(ODD, "f16", 1, integer=True)
    assert np.array_equal(run(made, ODD, a, b, "f16").astype("f4"), exact(a, b))


def test_random_numbers_are_within_a_limit_that_knows_k() -> None:
    made = kernel(SMALL, "f16", "f16")
    narrow, wide = (
        check(made, sized_inputs(made, Extents(64, 64, k), 0, "cpu")) for k in (16, 1024)
    )
    assert narrow.passed and wide.passed
    assert narrow.limit == 6e-4 and wide.limit == 8 * 6e-4 > wide.error > 6e-4


@pytest.mark.parametrize(
    ("params", "operand", "why"),
    [
        (SMALL, "bf16", "no wgmma multiplies bf16 by bf16 into f16"),
        (split_k(SMALL, 2), "f16", "accumulators=Half where CTAs add up parts of a tile"),
        (stream_k(SMALL), "f16", "accumulators=Half where CTAs add up parts of a tile"),
    ],
)
def test_what_is_refused(params: MatmulParams, operand: str, why: str) -> None:
    with pytest.raises((ScheduleError, UnsupportedError)) as error:
        compile_fusion(import_fusion(definition(operand, operand)), params)
    assert why in str(error.value)


def test_in_mlir() -> None:
    """Four 16-bit sums are two words of a thread: 64 columns are 16 of them."""
    text = kernel(SMALL, "f16", "f16").dump("mlir")
    assert "k = 16>, D [<f16>," in text and text.count("!i32x16 ->") >= 1
