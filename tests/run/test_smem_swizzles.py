"""Operands in spans that are asked for, without a swizzle too: the same bits, from all layouts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import wsched
from lowering.ground.errors import ScheduleError
from tests.computed import cast, fusion, tile
from tests.on_machine import Problem, exact, kernel, operands, run
from tests.proofs import proved
from tests.schedules import SCHEDULES, cooperative, definition
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion, compile_plan
from wsched.schedule.matmul.params import MatmulParams, SmemSwizzles, ThreadLoads
from wsched.schedule.options import MmaInputSmemSwizzle as Spans

ODD = Problem(200, 72, 136, 4)
SMALL = cooperative(128, 64, stages=3)


def in_spans(a: int, b: int, base: MatmulParams = SMALL) -> MatmulParams:
    return replace(base, smem_swizzles=SmemSwizzles(Spans(a), Spans(b)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "a", "b"),
    [("tn", 16, 16), ("tt", 0, 16), ("nn", 16, 128), ("nt", 16, 16), ("tn", 32, 64),
     ("nt", 64, 32)],
)  # fmt: skip
def test_right_proved_and_without_spills(layout: str, a: int, b: int) -> None:
    made = kernel(in_spans(a, b), layout=layout)
    boxes = [m.box[-1] * 2 for m in made.kernel.tensor_maps[:2]]
    assert boxes == [a or 128, b or 128]
    x, w = operands(ODD, "bf16", 0, integer=True)
    assert np.array_equal(run(made, ODD, x, w, "bf16", races=True).astype("f4"), exact(x, w))
    proved(made.kernel, made.plan)
    assert made.resources.clean


@pytest.mark.sampled
@pytest.mark.parametrize(
    "base",
    [
        SCHEDULES["pingpong_64x128"],
        SCHEDULES["cluster_2x2"],
        SCHEDULES["pipelined"],
        replace(SMALL, exchange_operands=True, use_smem_epilogue=False),
    ],
    ids=["ping-pong", "cluster", "pipelined", "exchanged"],
)
def test_whatever_else_the_schedule_does(base: MatmulParams) -> None:
    """Without a swizzle a tile is loaded in boxes of 8 columns, slices of a cluster too."""
    for layout in ("tn", "nt"):
        made = kernel(in_spans(16, 16, base), layout=layout)
        x, w = operands(ODD, "bf16", 1, integer=True)
        assert np.array_equal(run(made, ODD, x, w, "bf16").astype("f4"), exact(x, w))


def test_columns_that_no_swizzle_has() -> None:
    """24 columns of an N-major operand are three spans of 16 bytes, and of no swizzle."""
    narrow = cooperative(128, 24, stages=3)
    with pytest.raises(ScheduleError, match="n 24 is no multiple of 16: an N-major operand is"):
        kernel(narrow, layout="tt")
    made = kernel(in_spans(0, 16, narrow), layout="tt")
    x, w = operands(ODD, "bf16", 2, integer=True)
    assert np.array_equal(run(made, ODD, x, w, "bf16").astype("f4"), exact(x, w))


def test_narrow_spans_are_not_filled_up() -> None:
    """160 columns are five spans of 64 bytes, and no sixth that nothing reads."""
    wide = cooperative(128, 160, stages=3)
    rows = [kernel(p, layout="tt").kernel.buffer("T7").cols for p in (wide, in_spans(0, 64, wide))]
    assert rows == [192, 160]


@pytest.mark.parametrize(
    ("params", "why"),
    [
        (in_spans(128, 0, cooperative(128, 64, k=32)), "smem_swizzles.a=B128: a stage has 64 byte"),
        (
            replace(in_spans(16, 0), thread_loads=ThreadLoads(a=16)),
            "smem_swizzles.a=NoSwizzle: threads load it, and fill the widest spans",
        ),
    ],
)
def test_what_is_refused(params: MatmulParams, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        compile_fusion(import_fusion(definition()), params)
    assert why in str(error.value)


def test_an_operand_that_threads_compute() -> None:
    """Its stage is read by threads, on its way to the registers that wgmma takes."""
    made = fusion(cast("Int8"))
    params = tile(made, 128, 64).params
    with pytest.raises(ScheduleError, match=r"smem_swizzles\.a=B64: threads compute it, and read"):
        compile_fusion(made, replace(params, smem_swizzles=SmemSwizzles(a=Spans.B64)))


def test_of_a_schedule_by_calls() -> None:
    """The built-in scheduler's is the same kernel; the pass refuses what limits do not see."""
    s = wsched.Schedule.of(definition(), in_spans(64, 16))
    assert "smem_swizzles={'T0': MmaInputSmemSwizzle.B64" in str(s)
    made = compile_plan(s.plan(), s.options, "k")
    assert [m.swizzle.value for m in made.kernel.tensor_maps[:2]] == [64, 16]
    s.configure(smem_swizzles={"T5": Spans.B64})
    with pytest.raises(ScheduleError, match="smem_swizzles: T5 64: no TMA loads T5"):
        compile_plan(s.plan(), s.options, "k")
