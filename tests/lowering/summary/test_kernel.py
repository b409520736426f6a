"""Kernels of summaries: on the machine against fp64, as text, and as machine code."""

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
from lowering.summary.kernel import summary_kernel
from lowering.summary.tile import TOGETHER, Tile, tile_of
from passes.summary import lower_summary
from tests.lowering.summary.summaries import deviation, expected, rms, scaled
from wsched.fusion import DataType
from wsched.fusion.summary import Extent, Summary, staged

BF16, HALF, F32 = DataType.BFloat16, DataType.Half, DataType.Float
NUMPY: dict[DataType, Any] = {BF16: ml_dtypes.bfloat16, HALF: np.float16, F32: np.float32}


def made(summary: Summary, tile: Tile, vector: int = 2) -> Kernel:
    return lower_summary(summary_kernel(summary, "summary", tile, vector))


def random(summary: Summary, shape: tuple[int, ...], seed: int = 0) -> dict[str, Any]:
    """Inputs of these sizes."""
    rng = np.random.default_rng(seed)
    sizes = {
        Extent.TENSOR: shape, Extent.ONE: (),
        Extent.KEPT: tuple(n for d, n in enumerate(shape) if d not in summary.over),
    }  # fmt: skip
    return {
        v.name: np.abs(rng.standard_normal(sizes[v.extent])).astype(NUMPY[v.dtype])
        for v in summary.inputs
    }


def run(summary: Summary, given: dict[str, Any], vector: int = 2) -> list[Any]:
    """The results of a summary of one stage, poisoned with NaN before."""
    shape = given[summary.inputs[summary.tensor].name].shape
    front, reduced, behind = summary.sizes(shape)
    params = {"front": front, "reduced": reduced, "behind": behind}
    kernel = made(summary, tile_of(summary, reduced, vector), vector)
    sizes = {g.name: tuple(evaluate(e, params) for e in g.sizes) for g in kernel.globals}
    arrays = {name: np.asarray(x).reshape(sizes[name]) for name, x in given.items()}
    outs = [
        np.full(sizes[f"{r.value}_out"], np.nan, NUMPY[summary.value(r.value).dtype])
        for r in summary.results
    ]
    arrays |= {f"{r.value}_out": x for r, x in zip(summary.results, outs, strict=True)}
    run_kernel(kernel, arrays, params, evaluate(kernel.grid, params))
    return [x.reshape(r.shape(shape)) for r, x in zip(summary.results, outs, strict=True)]


def check(summary: Summary, shape: tuple[int, ...], vector: int = 2, rtol: float = 2e-6) -> None:
    given = random(summary, shape)
    found = run(summary, given, vector)
    for x, wanted in zip(found, expected(summary, given), strict=True):
        np.testing.assert_allclose(x.astype(np.float64), wanted, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "over"),
    [
        ((70, 300), (1,)), ((70, 40), (1,)), ((1, 8), (1,)), ((3, 5, 264), (2,)),
        ((300, 72), (0,)), ((40, 34), (0,)), ((1, 2), (0,)), ((2, 130, 72), (1,)),
        ((2, 70, 3, 36), (1, 2)), ((3000,), (0,)), ((3,), (0,)),
    ],
)  # fmt: skip
def test_sizes(shape: tuple[int, ...], over: tuple[int, ...]) -> None:
    """Rows, columns and all, by one warpgroup and by four, with tiles at every edge."""
    check(rms(len(shape), over), shape)


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [BF16, HALF, F32])
@pytest.mark.parametrize("over", [(0,), (1,)])
def test_operations(op: str, dtype: DataType, over: tuple[int, ...]) -> None:
    """Behind an edge exp(0 - 0) is no neutral element; the result is rounded to its type."""
    rtol = {BF16: 2**-8, HALF: 2**-11, F32: 5e-6}[dtype]
    check(scaled(2, over, op, dtype), (70, 298), rtol=rtol)


@pytest.mark.parametrize("over", [(0,), (1,)])
def test_rows_of_odd_lengths(over: tuple[int, ...]) -> None:
    """Threads take one element at a time."""
    check(scaled(2, over, "sum", BF16), (67, 131), vector=1, rtol=2**-8)


@pytest.mark.parametrize("shape", [(17, 1544), (3, 5, 264), (8, 512)])
def test_long_rows_for_warps(shape: tuple[int, ...]) -> None:
    """Threads take eight elements at a time, with tiles at every edge."""
    check(rms(len(shape), (len(shape) - 1,)), shape, vector=TOGETHER)


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [BF16, HALF, F32])
def test_operations_on_long_rows(op: str, dtype: DataType) -> None:
    rtol = {BF16: 2**-8, HALF: 2**-11, F32: 5e-6}[dtype]
    check(scaled(2, (1,), op, dtype), (11, 1032), TOGETHER, rtol)


@pytest.mark.parametrize("over", [(0,), (1,), (0, 1)])
def test_two_reductions(over: tuple[int, ...]) -> None:
    """In one pass; all of a matrix in two stages."""
    summary = deviation(2, over)
    given = random(summary, (66, 270))
    wanted = expected(summary, given)
    for stage in staged(summary):
        parts = run(stage, given)
        given = {r.value: x for r, x in zip(stage.results, parts, strict=True)}
    for x, right in zip(parts, wanted, strict=True):
        assert x.shape == right.shape
        np.testing.assert_allclose(x, right, rtol=2e-6)


def test_runs_that_lie_apart() -> None:
    """The last run first; its results have lost its dimensions."""
    stages = staged(rms(5, (0, 2, 4)))
    assert [(s.rank, s.over) for s in stages] == [(5, (4,)), (4, (2,)), (3, (0,))]
    names = [[v.name for v in s.values] for s in stages]
    assert all(len(set(found)) == len(found) for found in names)
    assert [v.name for v in stages[0].inputs] == ["s", "x"]
    assert stages[2].results[0].dims == (1, 2)


@pytest.mark.parametrize(
    ("reduced", "axis", "tile"),
    [
        (4096, (1,), Tile(4, 64, 128)), (256, (1,), Tile(1, 64, 32)),
        (4096, (0,), Tile(4, 128, 32)), (128, (0,), Tile(1, 128, 32)),
    ],
)  # fmt: skip
def test_tiles(reduced: int, axis: tuple[int, ...], tile: Tile) -> None:
    assert tile_of(rms(2, axis), reduced) == tile


@pytest.mark.parametrize("vector", [2, TOGETHER])
def test_the_text_is_read_back(vector: int) -> None:
    kernel = made(rms(2, (1,)), tile_of(rms(2, (1,)), 4096, vector), vector)
    assert parse_kernel(print_kernel(kernel)) == kernel


def test_kernel(golden: object) -> None:
    """What a norm's statistics are in the IR, where threads read pairs."""
    assert print_kernel(made(rms(2, (1,)), Tile(4, 64, 128))) == golden


def test_kernel_of_long_rows(golden: object) -> None:
    """And where they read 16 bytes."""
    wide = tile_of(rms(2, (1,)), 4096, TOGETHER)
    assert print_kernel(made(rms(2, (1,)), wide, TOGETHER)) == golden


@pytest.mark.sampled
@pytest.mark.parametrize(
    "summary",
    [rms(2, (1,)), rms(2, (0,)), rms(1, (0,)), scaled(2, (1,), "max", HALF), deviation(2, (1,))],
    ids=["columns", "rows", "all", "two_inputs", "fp32"],
)
@pytest.mark.parametrize("vector", [1, 2, TOGETHER])
def test_machine_code(summary: Summary, vector: int) -> None:
    """No spills, and no more registers than 512 threads have."""
    tile = tile_of(summary, 4096, vector)
    code = compile_cubin(
        emit_cuda(made(summary, tile, min(vector, tile.layout.span))), "summary.cu"
    )
    found = read_resources(code, "summary")
    assert not (found.spill_stores or found.spill_loads or found.stack)
    assert found.registers <= 128
