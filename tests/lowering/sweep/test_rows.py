"""Sweeps with values of whole rows: norms and softmaxes, on the machine against fp64."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.machine import run_kernel
from lowering.sweep.kernel import Access, sweep_kernel
from lowering.sweep.tile import LONGEST_ROW, SPAN, longest_row, row_tile
from passes.summary import lower_summary
from tests.lowering.cuda.unwritten import unwritten
from tests.lowering.sweep.sweeps import BF16, F32, NUMPY
from wsched.fusion import DataType
from wsched.fusion.sweep import Place, Sweep, Term

EVERY, ROW, COLUMN = frozenset((0, 1)), frozenset((1,)), frozenset((0,))


def softmax(dtype: DataType) -> Sweep:
    terms = (
        Term("x", "input", dtype, (), EVERY),
        Term("most", "max", F32, ("x",), COLUMN),
        Term("apart", "sub", F32, ("x", "most"), EVERY),
        Term("power", "exp", F32, ("apart",), EVERY),
        Term("total", "sum", F32, ("power",), COLUMN),
        Term("share", "div", F32, ("power", "total"), EVERY),
        Term("made", "cast", dtype, ("share",), EVERY),
    )
    return Sweep(2, terms, (Place("x", (0, 1)),), (Place("made", (0, 1), (0, 1)),), ROW)


def norm(dtype: DataType) -> Sweep:
    """A layer norm of a sum with weight and bias."""
    terms = (
        Term("x", "input", dtype, (), EVERY),
        Term("more", "input", dtype, (), EVERY),
        Term("weight", "input", dtype, (), ROW),
        Term("bias", "input", dtype, (), ROW),
        Term("both", "add", F32, ("x", "more"), EVERY),
        Term("mean", "mean", F32, ("both",), COLUMN),
        Term("apart", "sub", F32, ("both", "mean"), EVERY),
        Term("square", "mul", F32, ("apart", "apart"), EVERY),
        Term("variance", "mean", F32, ("square",), COLUMN),
        Term("some", "add", F32, ("variance", 1e-5), COLUMN),
        Term("scale", "rsqrt", F32, ("some",), COLUMN),
        Term("normed", "mul", F32, ("apart", "scale"), EVERY),
        Term("weighed", "mul", F32, ("normed", "weight"), EVERY),
        Term("moved", "add", F32, ("weighed", "bias"), EVERY),
        Term("made", "cast", dtype, ("moved",), EVERY),
    )
    reads = [Place(t.name, tuple(d if d in t.dims else None for d in (0, 1))) for t in terms[:4]]
    return Sweep(2, terms, tuple(reads), (Place("made", (0, 1), (0, 1)),), ROW)


def made(sweep: Sweep, row: int) -> Kernel:
    accesses, widest = [], max(sweep.term(p.term).dtype.bytes for p in sweep.places())
    for p in sweep.places():
        size = sweep.term(p.term).dtype.bytes
        accesses.append(Access(gcd(16, row * size)))
    tile = row_tile(row, min(SPAN, gcd(16, row * widest) // widest))
    return lower_summary(sweep_kernel(sweep, "rows", tile, accesses))


def run(sweep: Sweep, shape: tuple[int, int]) -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    given = {
        p.term: (3 * rng.standard_normal(p.shape(shape)) + 1).astype(
            NUMPY[sweep.term(p.term).dtype]
        )
        for p in sweep.inputs
    }
    kernel = made(sweep, shape[1])
    assert parse_kernel(print_kernel(kernel)) == kernel
    assert unwritten(emit_cuda(kernel)) == []
    out = np.full(shape, np.nan, NUMPY[sweep.term("made").dtype])
    params = {"n0": shape[0], "n1": shape[1]}
    run_kernel(kernel, given | {"out0": out}, params, evaluate(kernel.grid, params))
    return out.astype(np.float64), {n: x.astype(np.float64) for n, x in given.items()}


SHAPES = [(3, 8), (9, 30), (70, 64), (5, 257), (10, 768), (9, LONGEST_ROW)]


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape: tuple[int, int]) -> None:
    found, given = run(softmax(F32), shape)
    power = np.exp(given["x"] - given["x"].max(1, keepdims=True))
    np.testing.assert_allclose(found, power / power.sum(1, keepdims=True), rtol=2e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(shape: tuple[int, int]) -> None:
    found, given = run(norm(F32), shape)
    both = given["x"] + given["more"]
    apart = both - both.mean(1, keepdims=True)
    normed = apart / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5)
    wanted = normed * given["weight"] + given["bias"]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize("row", [33, 64, 768, longest_row(1) - 1, LONGEST_ROW - 4, LONGEST_ROW])
@pytest.mark.parametrize("kind", [softmax, norm])
def test_machine_code_without_spills(kind: Any, row: int, dtype: DataType) -> None:
    kernel = made(kind(dtype), row)
    found = read_resources(compile_cubin(emit_cuda(kernel), "rows.cu"), "rows")
    assert found.spill_stores == found.spill_loads == found.stack == 0


def test_rows_that_are_too_long() -> None:
    for span, longest in ((SPAN, 1280), (4, 1280), (2, 1024)):
        assert row_tile(longest, span).row == longest
        with pytest.raises(UnsupportedError) as error:
            row_tile(longest + 1, span)
        assert error.value.what == f"a sweep that reduces rows of {longest + 1}"
        assert error.value.supported == f"up to {longest}"
