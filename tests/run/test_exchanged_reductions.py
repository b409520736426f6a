"""Reductions beside the result of an exchanged kernel, whose tiles have columns of it as rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wsched
from tests.lowering.cuda.opcodes import count_opcodes
from tests.proofs import proved
from tests.reductions import ALL, Reduced, definition, expected
from tests.run.test_reductions import check, fitted, inputs
from tests.schedules import cooperative, exchanged, ping_pong
from wsched.bench.reductions import REDUCTIONS
from wsched.bench.reductions import definition as linear_with
from wsched.choose.heuristics import choose_params
from wsched.front.choices import choices_of
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.finish import parts_shape

torch = pytest.importorskip("torch", reason="torch is not installed")

TURNS = replace(exchanged(ping_pong(128, 144, epilogue_stages=2)), num_registers="auto")
"""The tile that 8192x4096x2048 takes, in three chunks of two boxes each."""

KERNELS = {
    "chosen": TURNS,
    "turns": exchanged(ping_pong(64, 32)),
    "boxes": exchanged(cooperative(256, 48, stages=3, epilogue_stages=2)),
    "chunks": exchanged(cooperative(64, 80, groups=1, registers=None)),
    "cluster": exchanged(cooperative(128, 64, cluster=(2, 1))),
}


@cache
def kernel(name: str) -> CompiledFusion:
    return compile_fusion(import_fusion(definition(ALL)), fitted(KERNELS[name], ALL))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(KERNELS)), st.integers(1, 150), st.integers(1, 19), st.integers(1, 5))
def test_any_size(name: str, m: int, n: int, k: int) -> None:
    """Also rows that end within a tile's columns, and columns that end within its rows."""
    x = inputs(m, 8 * n, 8 * k)
    check(kernel(name)(*x), expected(ALL, *x))


@pytest.mark.parametrize("name", KERNELS)
def test_ends_within_a_tile(name: str) -> None:
    x = inputs(77, 136, 24)
    check(kernel(name)(*x), expected(ALL, *x))


def test_parts_lie_by_tiles_of_the_transposed_product() -> None:
    """300 rows in columns of 48, 264 columns in rows of two warpgroups; parts outermost."""
    fusion = kernel("boxes").plan.fusion
    sizes = [parts_shape(fusion, b, {"M": 300, "N": 264}) for b in fusion.reduced]
    assert sizes == [(7, 264), (2, 2, 300), (7, 264), (2, 2, 300), (2, 2, 7)]


def test_batches() -> None:
    reduced = (
        Reduced("sum", (0, 1)), Reduced("sum", (1,)), Reduced("max", (2,)),
        Reduced("sum", (0, 1, 2), "square"), Reduced("min", (0, 2)),
    )  # fmt: skip
    x = inputs(70, 72, 40, (3,))
    fusion = import_fusion(definition(reduced, batched=True))
    check(compile_fusion(fusion, KERNELS["chunks"])(*x), expected(reduced, *x))


@pytest.mark.parametrize("stored", [True, False], ids=["by TMA", "by threads"])
@pytest.mark.parametrize("dtype", ["BFloat16", "Half", "Float"])
def test_what_is_rounded_is_rounded_before_it_is_reduced(dtype: str, stored: bool) -> None:
    """The largest and the least of the result's own elements, as they are stored."""
    if stored and dtype == "Float":
        pytest.skip("stmatrix transposes 16 bits")
    lines = [f"d = fd.ops.cast(y, dtype=DataType.{dtype})",
             "w = fd.ops.cast(d, dtype=DataType.Float)",
             "a = fd.ops.max(w, dims=[0])", "b = fd.ops.min(w, dims=[1])",
             "c = fd.ops.max(w, dims=[0, 1])"]  # fmt: skip
    text = definition(()).replace("    fd.add_output(y)\n", "".join(f"    {x}\n" for x in lines))
    text += "".join(f"    fd.add_output({x})\n" for x in "dabc")
    torch.manual_seed(0)
    x = tuple(torch.randn(s).bfloat16() for s in ((77, 40), (72, 40), (72,)))
    params = replace(exchanged(cooperative(128, 48, stages=3)), use_smem_epilogue=stored)
    d, a, b, c = wsched.execute(text, x, params=params)
    wide = d.float()
    assert d.dtype is {"BFloat16": torch.bfloat16, "Half": torch.half, "Float": torch.float}[dtype]
    assert torch.equal(a, wide.amax(0)) and torch.equal(b, wide.amin(1))
    assert torch.equal(c, wide.amax())


@cache
def beside(reduction: str) -> CompiledFusion:
    return compile_fusion(import_fusion(linear_with(reduction)), TURNS)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_tile_that_is_chosen_is_proved(reduction: str) -> None:
    proved(beside(reduction).kernel, beside(reduction).plan)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_its_arithmetic_stands_between_stores(reduction: str) -> None:
    """Nothing spills. Two chunks are reduced behind both of their stores, and the last one in front
    of the store that is left; none in front of the first store or behind the last.
    """
    made = beside(reduction)
    assert made.resources.clean
    opcodes = ("FMNMX",) if reduction == "amax" else ("FADD", "FFMA")
    found = map(count_opcodes, made.dump("sass").split("UTMASTG"))
    counts = [sum(part[opcode] for opcode in opcodes) for part in found]
    assert len(counts) == 7
    assert [n > 30 for n in counts] == [False, False, True, False, True, True, False]
    assert counts[0] == counts[1] == counts[3] == counts[-1] == 0


@pytest.mark.parametrize(("k", "reduction"), [(k, r) for k in (512, 2048) for r in REDUCTIONS])
def test_who_takes_it(k: int, reduction: str) -> None:
    """8192x4096 takes an exchanged tile beside each reduction as without; not beside sums over the
    tile's rows where the main loop is too short to hide how they are handed on.
    """
    fusion = import_fusion(linear_with(reduction))
    found = choose_params(Extents(8192, 4096, k).problem(fusion, 132), tuned=False)
    short = k == 512 and reduction in ("rows", "squares")
    assert found.exchange_operands is not short
    assert found.output_tile.m == 128 and found.ping_pong


@pytest.mark.parametrize(("reduction", "size"), [("columns", 24576), ("rows", 24576 + 5120)])
def test_what_explain_says_of_its_shared_memory(reduction: str, size: int) -> None:
    """Four buffers of 64 x 48; of each warp a row of the tile where columns of the result, which
    are its rows, are reduced.
    """
    made = beside(reduction)
    problem = Extents(8192, 4096, 512).problem(made.plan.fusion, 132)
    (said,) = (c for c in choices_of(made, problem, "are given", 132)
               if c.name == "smem_circular_buffer_stage")  # fmt: skip
    assert f", {size} for the epilogue and " in said.reason


def inexact() -> Any:
    torch.manual_seed(1)
    return tuple(torch.randn(s).bfloat16() for s in ((200, 64), (136, 64), (136,)))


def test_the_same_bits_in_each_call() -> None:
    x = inexact()
    first, second = kernel("boxes")(*x), kernel("boxes")(*x)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    stored = first[0].float(), torch.eye(136), torch.zeros(136)
    for found, wanted in zip(first[1:], expected(ALL, *stored)[1:], strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)
