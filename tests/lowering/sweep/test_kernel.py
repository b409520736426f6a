"""Kernels of sweeps: on the machine against NumPy bit by bit, as text, and as machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import FragLoadGlobal
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.visit import walk
from lowering.machine import run_kernel
from lowering.sweep.kernel import Access, sweep_kernel, tensor_names
from lowering.sweep.tile import SPAN, Tile, tile_of
from lowering.target.blackwell import BLACKWELL
from lowering.target.hopper import HOPPER
from lowering.target.target import Target
from passes.summary import lower_summary
from tests.conftest import Golden
from tests.lowering.cuda.unwritten import unwritten
from tests.lowering.sweep.sweeps import BF16, BOOL, F32, HALF, NUMPY, expected, halves, masked
from wsched.fusion import DataType
from wsched.fusion.sweep import Place, Sweep, Term

ALONE = {F32: 4, BF16: 2, HALF: 2, BOOL: 1}


def accesses(sweep: Sweep, align: int, turned: str = "") -> list[Access]:
    """Of tensors whose rows are whole ``align`` bytes of 16-bit elements."""
    found = []
    for p in sweep.places():
        dtype = sweep.term(p.term).dtype
        columns = p.dims[-1] is not None and p.term != turned
        wide = min(align // 2 * dtype.bytes, 16) if columns and align > 2 else dtype.bytes
        found.append(Access(max(wide, ALONE[dtype]), p.term == turned))
    return found


def made(sweep: Sweep, tile: Tile, how: list[Access]) -> Kernel:
    return lower_summary(sweep_kernel(sweep, "sweep", tile, how))


def check(
    shape: tuple[int, ...], dtype: DataType, align: int, turned: str = "", span: int = SPAN
) -> Kernel:
    sweep, rng = masked(len(shape), dtype), np.random.default_rng(0)
    given: dict[str, Any] = {}
    for p in sweep.inputs:
        kind = sweep.term(p.term).dtype
        size = p.shape(shape)
        drawn = rng.random(size) < 0.5 if kind is BOOL else rng.standard_normal(size)
        given[p.term] = drawn.astype(NUMPY[kind])
    outs = [np.zeros(shape, NUMPY[sweep.term(p.term).dtype]) for p in sweep.results]
    outs[0].fill(np.nan)
    kernel = made(sweep, tile_of(shape, bool(turned), span), accesses(sweep, align, turned))
    names = tensor_names(sweep)[-2:]
    tensors = given | dict(zip(names, outs, strict=True))
    if turned:
        key = names[0] if turned == "made" else turned
        whole = np.ascontiguousarray(tensors[key].swapaxes(-1, -2))
        tensors[key] = whole
        outs[0] = whole.swapaxes(-1, -2) if turned == "made" else outs[0]
    params = {f"n{d}": n for d, n in enumerate(shape)}
    run_kernel(kernel, tensors, params, evaluate(kernel.grid, params))
    assert unwritten(emit_cuda(kernel)) == []
    for found, wanted in zip(outs, expected(given, dtype), strict=True):
        np.testing.assert_array_equal(found, wanted)
    return kernel


@pytest.mark.parametrize("dtype", [BF16, HALF, F32])
@pytest.mark.parametrize(
    ("shape", "align"),
    [
        ((3, 8), 16), ((70, 24), 16), ((9, 520), 16), ((300, 8), 16), ((5, 36), 8), ((4, 6), 4),
        ((3, 7), 2), ((1, 257), 2), ((2, 3, 40), 16), ((2, 2, 3, 16), 16),
    ],
)  # fmt: skip
def test_bit_by_bit(shape: tuple[int, ...], align: int, dtype: DataType) -> None:
    kernel = check(shape, dtype, align)
    assert parse_kernel(print_kernel(kernel)) == kernel


@pytest.mark.parametrize("turned", ["x", "mask", "made"])
@pytest.mark.parametrize("shape", [(40, 24), (2, 70, 33)])
def test_tensors_by_columns(shape: tuple[int, ...], turned: str) -> None:
    check(shape, BF16, 16 if shape[-1] % 8 == 0 else 2, turned)


@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize(
    ("along", "apart"),
    [(along, apart) for along in range(4) for apart in range(4) if along != apart],
)
def test_halves_and_results_that_repeat(along: int, apart: int, dtype: DataType) -> None:
    """Along columns, rows, and dimensions of which a CTA has one place."""
    sizes = [3, 5, 70, 24]
    sizes[along] = 2
    sweep, rng = halves(4, along, apart, dtype), np.random.default_rng(0)
    sweep = sweep.repeating({apart: sizes[apart]})
    shapes = [p.shape(sizes) for p in sweep.inputs]
    assert sweep.sizes(shapes) == tuple(sizes)
    x, y = (rng.standard_normal(s) for s in shapes)
    given = {"x": x.astype(NUMPY[dtype]), "y": y.astype(np.float32)}
    made_of, out = tile_of(sizes, False), np.full(sizes, np.nan, NUMPY[dtype])
    align = {BF16: 2, F32: 4}[dtype]
    how = [Access(align), Access(4), Access(align)]
    kernel = made(sweep, made_of, how)
    params = {f"n{d}": n for d, n in enumerate(sizes)}
    run_kernel(kernel, given | {"out0": out}, params, evaluate(kernel.grid, params))
    is_first = (np.arange(2) == 0).reshape([2 if d == along else 1 for d in range(4)])
    wanted = np.where(is_first, given["x"].astype(np.float32), -given["y"]).astype(NUMPY[dtype])
    np.testing.assert_array_equal(out, np.broadcast_to(wanted, sizes))
    assert unwritten(emit_cuda(kernel)) == []
    loads = [s for s in walk(kernel.body) if isinstance(s, FragLoadGlobal)]
    limited = along < 2 and apart != 2  # a CTA's whole tile is of one half, with rows of both
    assert [s.limit is not None for s in loads] == [limited, limited]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize(
    ("shape", "align", "turned"),
    [((300, 8), 16, ""), ((64, 4096), 16, ""), ((64, 33), 2, ""), ((3, 64, 64), 16, "x")],
)
def test_machine_code_without_spills(
    shape: tuple[int, ...], align: int, turned: str, dtype: DataType
) -> None:
    sweep = masked(len(shape), dtype)
    kernel = made(sweep, tile_of(shape, bool(turned)), accesses(sweep, align, turned))
    text = emit_cuda(kernel)
    found = read_resources(compile_cubin(text, "sweep.cu"), "sweep")
    assert found.spill_stores == found.spill_loads == found.stack == 0
    word = "f32" if dtype is F32 else "b32"
    if not turned:
        assert (f" ld_global_v4_{word}(" in text) is (align == 16)
    assert (" ld_global_v2_b32(" in text) is (align == 16)  # eight conditions


@pytest.mark.parametrize("span", [1, 2, 4])
@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize("shape", [(300, 1), (9, 33), (2, 70, 257)])
def test_narrow_pieces(shape: tuple[int, ...], dtype: DataType, span: int) -> None:
    """A thread of few columns together, which its warp has side by side: bit by bit."""
    check(shape, dtype, 2, span=span)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize("span", [1, 2, 4])
def test_narrow_machine_code_without_spills(span: int, dtype: DataType) -> None:
    sweep = masked(2, dtype)
    for shape in ((4096, 1), (64, 4095)):
        tile = tile_of(shape, False, span)
        kernel = made(sweep, tile, accesses(sweep, 2 * span if span > 1 else 2))
        found = read_resources(compile_cubin(emit_cuda(kernel), "sweep.cu"), "sweep")
        assert found.spill_stores == found.spill_loads == found.stack == 0


@pytest.mark.parametrize(
    ("shape", "align", "turned", "span"),
    [((9, 520), 16, "", SPAN), ((40, 24), 16, "mask", SPAN), ((9, 33), 2, "", 2)],
    ids=["vectors", "columns", "narrow"],
)
def test_text(shape: tuple[int, ...], align: int, turned: str, span: int, golden: Golden) -> None:
    """The machine reads elements, however a thread of a GPU packs them."""
    sweep = masked(len(shape), BF16)
    kernel = made(sweep, tile_of(shape, bool(turned), span), accesses(sweep, align, turned))
    assert emit_kernel(kernel) == golden


def test_tiles_fill_warps() -> None:
    """Rows of as many lanes as are needed, and four lanes where something lies by columns."""
    assert [tile_of((512, n), False).lanes for n in (8, 16, 64, 200, 4096)] == [1, 2, 8, 32, 32]
    assert tile_of((512, 4096), True).lanes == 4
    assert tile_of((512, 4096), False).columns == 512 and tile_of((512, 8), False).rows == 512


@pytest.mark.parametrize("target", [HOPPER, BLACKWELL], ids=lambda t: t.arch)
def test_it_is_for_the_target_that_is_asked_for(target: Target) -> None:
    sweep = masked(2, BF16)
    made = sweep_kernel(sweep, "sweep", tile_of((8, 64), False), accesses(sweep, 8), target)
    assert made.target is target and lower_summary(made).target is target


@pytest.mark.parametrize("lacks", [0, 1, 2])
def test_whether_repeats(lacks: int) -> None:
    """A result of Bool that is the same along a dimension."""
    sizes = [3, 40, 24]
    inner = frozenset(range(3)) - {lacks}
    dims = tuple(d if d in inner else None for d in range(3))
    terms = (Term("x", "input", F32, (), inner), Term("above", "gt", BOOL, ("x", 0.0), inner))
    sweep = Sweep(3, terms, (Place("x", dims, (0, 1, 2)),), (Place("above", dims, (0, 1, 2)),))
    sweep = sweep.repeating({lacks: sizes[lacks]})
    x = np.random.default_rng(0).standard_normal(sweep.inputs[0].shape(sizes)).astype(np.float32)
    kernel, out = made(sweep, tile_of(sizes, False), [Access(4), Access(1)]), np.zeros(sizes, bool)
    params = {f"n{d}": n for d, n in enumerate(sizes)}
    run_kernel(kernel, {"x": x, "out0": out}, params, evaluate(kernel.grid, params))
    np.testing.assert_array_equal(out, np.broadcast_to(x > 0, sizes))
    assert unwritten(emit_cuda(kernel)) == []
