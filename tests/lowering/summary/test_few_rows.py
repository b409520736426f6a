"""Kernels of summaries of few rows: on the machine bit by bit, as text, and as machine code."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.machine import run_kernel
from lowering.summary.few_rows import FewRows, few_rows_kernel, few_rows_of
from lowering.target.targets import DEFAULT
from passes.summary import lower_summary
from tests.lowering.summary.summaries import deviation, rms, total
from wsched.fusion import DataType
from wsched.fusion.summary import Extent, Result, Summary, Value

BF16, F32 = DataType.BFloat16, DataType.Float
NARROW, WIDE = FewRows(2, 16), FewRows(4, 8)


def scaled() -> Summary:
    """``s * sum(x) + sum(y) * v`` of two tensors, a number and what is kept, and ``sum(y)``."""
    values = (
        Value("s", "input", F32, (), Extent.ONE),
        Value("x", "input", F32, (), Extent.TENSOR),
        Value("v", "input", BF16, (), Extent.KEPT),
        Value("twice", "mul", F32, ("s", 2.0), Extent.ONE),
        Value("y", "input", F32, (), Extent.TENSOR),
        Value("sum_x", "sum", F32, ("x",), Extent.KEPT),
        Value("sum_y", "sum", F32, ("y",), Extent.KEPT),
        Value("wide", "cast", F32, ("v",), Extent.KEPT),
        Value("left", "mul", F32, ("twice", "sum_x"), Extent.KEPT),
        Value("right", "mul", F32, ("sum_y", "wide"), Extent.KEPT),
        Value("made", "add", BF16, ("left", "right"), Extent.KEPT),
    )
    return Summary(2, (0,), values, (Result("made", (1,)), Result("sum_y", (1,))))


def made(summary: Summary, few: FewRows) -> Kernel:
    return lower_summary(few_rows_kernel(summary, "summary", few))


def run(summary: Summary, few: FewRows, given: dict[str, Any]) -> list[Any]:
    """The results, poisoned with NaN before."""
    kernel = made(summary, few)
    front, reduced, behind = summary.sizes(given[summary.inputs[summary.tensor].name].shape)
    params = {"front": front, "reduced": reduced, "behind": behind}
    sizes = {g.name: tuple(evaluate(e, params) for e in g.sizes) for g in kernel.globals}
    arrays = {name: np.asarray(x).reshape(sizes[name]) for name, x in given.items()}
    types = {F32: np.float32, BF16: ml_dtypes.bfloat16}
    names = [r.value for r in summary.results]
    outs = {
        f"{n}_out": np.full(sizes[f"{n}_out"], np.nan, types[summary.value(n).dtype]) for n in names
    }
    run_kernel(kernel, arrays | outs, params, evaluate(kernel.grid, params))
    return [outs[f"{n}_out"].reshape(front, behind) for n in names]


@pytest.mark.parametrize("few", [NARROW, WIDE], ids=str)
@pytest.mark.parametrize(
    "shape", [(2, 3, 4), (26, 34, 44), (16, 1, 2048), (17, 1, 2052), (1, 1, 4)]
)
def test_sizes(few: FewRows, shape: tuple[int, ...]) -> None:
    """In the order of the rows, so that the bits are those of NumPy's loop."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    wanted = np.zeros(shape[1:], np.float32)
    for part in x:
        wanted = wanted + part
    (found,) = run(total(), few, {"part": x})
    assert np.array_equal(found.reshape(shape[1:]), wanted.astype(ml_dtypes.bfloat16))


def test_between_other_dimensions() -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 4, 20)).astype(np.float32)
    (found,) = run(total(4, (1, 2), F32), NARROW, {"part": x})
    np.testing.assert_allclose(found.reshape(3, 20), x.sum((1, 2)), rtol=1e-5, atol=1e-6)


def test_what_stands_around_sums() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((5, 70 * 4)).astype(np.float32) for _ in "xy")
    v, s = rng.standard_normal(70 * 4).astype(ml_dtypes.bfloat16), np.float32(0.75)
    few = FewRows(2, 8)
    found, sums = run(scaled(), few, {"s": s, "x": x, "v": v, "y": y})
    wanted = 1.5 * x.sum(0) + y.sum(0) * v.astype(np.float32)
    np.testing.assert_allclose(found.astype(np.float32)[0], wanted, rtol=2**-7, atol=1e-2)
    np.testing.assert_allclose(sums[0], y.sum(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("summary", "sizes", "few"),
    [
        (total(), (1, 26, 136 * 440), NARROW), (total(), (1, 4, 1024 * 1024), WIDE),
        (total(), (1, 8, 34), NARROW), (total(), (1, 8, 35), None),
        (total(), (1, 2, 1024 * 1024 + 2), NARROW), (total(), (1, 129, 64), None),
        (total(), (1, 64, 4096), None), (total(), (1, 16, 4096), NARROW),
        (scaled(), (1, 8, 64), FewRows(2, 8)), (deviation(2, (0,)), (1, 8, 64), None),
        (rms(2, (0,)), (1, 8, 64), None), (total(2, (1,)), (64, 8, 1), None),
    ],
)  # fmt: skip
def test_which_have_few_rows(
    summary: Summary, sizes: tuple[int, int, int], few: FewRows | None
) -> None:
    """Not of many rows, nor of odd columns; not where rows are changed before they are added."""
    assert few_rows_of(summary, *sizes) == few


def test_how_few_columns() -> None:
    """Of many rows CTAs for nearly every other multiprocessor; wide pieces where each has two."""
    found = {n: few_rows_of(total(), 1, 64, n * 512) for n in (63, 64, 2 * 263, 2 * 264)}
    assert found == {63: None, 64: NARROW, 526: NARROW, 528: WIDE}
    assert DEFAULT.sms == 132 and (NARROW.columns, WIDE.columns) == (512, 1024)


def test_kernel(golden: object) -> None:
    kernel = made(total(), FewRows(4, 2))
    assert print_kernel(kernel) == golden
    assert parse_kernel(print_kernel(kernel)) == kernel


@pytest.mark.parametrize("few", [NARROW, WIDE], ids=str)
@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
def test_machine_code(few: FewRows, dtype: DataType) -> None:
    """All loads of a trip are in flight in registers; nothing is spilled."""
    code = compile_cubin(emit_cuda(made(total(dtype=dtype), few)), "summary.cu")
    found = read_resources(code, "summary")
    assert not (found.spill_stores or found.spill_loads or found.stack)
    assert 64 < found.registers <= 96
