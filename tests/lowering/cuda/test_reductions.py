"""Reductions as CUDA C++: the text, and machine code without spills."""

from __future__ import annotations

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from tests.lowering.machine.reductions import four_shapes

SMALL = """
kernel small threads 128 cluster 1 grid 1 {
  param M: i32
  global x: f32[M, 32]
  global h: f16[M, 1]
  global one: bf16[1, 1]
  global line: bf16[1, 32] align 4
  global totals: f32[2, M]
  shared meeting: f32[1][4x32] at 0
  shared wide: f32[1][4x160] at 512
  t: frag<f32, 128x32> = frag.load_global x[0, 0]
  zero: frag<f32, 64x32> = frag.fill 0.0
  upper: frag<f32, 64x32> = frag.reduce sum, zero, t
  none: frag<f32, 128x8> = frag.fill -inf
  some: frag<f32, 128x8> = frag.reduce max, none, t
  lowest: frag<f32, 64x1> = frag.fill inf
  all: frag<f32, 64x1> = frag.reduce min, lowest, some
  frag.reduce_to_shared min, meeting[0, 0, 0], t
  cta.sync
  first: frag<f32, 1x32> = frag.fill 0.0
  rows: frag<f32, 1x32> = frag.reduce_from_shared min, first, meeting[0, 0, 0], 4
  rows16: frag<bf16, 1x32> = frag.cast rows
  all16: frag<f16, 64x1> = frag.cast all
  start: frag<f32, 1x1> = frag.fill 0.0
  value: frag<f32, 1x1> = frag.reduce sum, start, rows
  value16: frag<bf16, 1x1> = frag.cast value
  frag.store_global line[0, 0], rows16
  frag.store_global h[0, 0], all16, limit=M
  frag.store_global one[0, 0], value16
  frag.red_global add, x[0, 0], upper, any_order=true
  frag.red_global min, x[M, 0], rows
  frag.store_reduced max, totals[1, 32], meeting[0, 0, 0], 4, 32
  frag.store_reduced sum, totals[0, 0], wide[0, 0, 0], 4, 160
}
"""


def test_text(golden: object) -> None:
    """Every kind of fold, and stores of vectors of 16 bits: two rows are halves of a register."""
    kernel = parse_kernel(SMALL)
    assert verify(kernel) == []
    assert emit_kernel(kernel) == golden


def test_whole_warpgroups_of_columns_ask_for_none() -> None:
    """Who has a column is asked where a warpgroup has more threads than columns are left."""
    whole = SMALL.replace("4x160", "4x256").replace("4, 160", "4, 256")
    texts = [emit_kernel(parse_kernel(text)) for text in (SMALL, whole)]
    assert [text.count(" < 32 && ") - text.count(" < 128 && ") for text in texts] == [2, 1]


@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_four_shapes(op: str, golden: object) -> None:
    assert emit_kernel(four_shapes(op)) == golden


@pytest.mark.slow
@pytest.mark.parametrize("op", ["sum", "max"])
def test_machine_code(op: str) -> None:
    """A row's four lanes exchange twice, a column's eight halves of what they have left; nothing is
    spilled.
    """
    compiled = compile_cubin(emit_cuda(four_shapes(op)))
    assert read_resources(compiled, "four").clean
    sass = disassemble(compiled.cubin)
    # 2 rows, 16 columns of the chunk, and the column that makes the single value.
    assert sass.count("SHFL.BFLY") == 2 * 2 + (8 + 4 + 2) + 3
    reds = {"sum": ["REDG.E.ADD.F32"], "max": ["REDG.E.MAX.S32", "REDG.E.MIN."]}[op]
    assert all(sass.count(red) == 1 for red in reds)


def test_small_compiles() -> None:
    assert read_resources(compile_cubin(emit_cuda(parse_kernel(SMALL))), "small").clean


ADDED = """
kernel added threads 128 cluster 1 grid 1 {
  param M: i32
  param N: i32
  global x: KIND[M, N] align 4
  global order: s32[M, 1]
  global d: KIND[M, N] align ALIGN
  near: frag<s32, 64x1> = frag.load_global order[0, 0]
  t: frag<KIND, 64x16> = frag.load_global x[0, 0]
  frag.red_global add, d[0, 0], t, limit=M - 3, index=near, any_order=true
}
"""


@pytest.mark.parametrize(("align", "form", "count"), [(4, "b32", 2), (2, "b16", 4)])
@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_halves_are_added(kind: str, align: int, form: str, count: int) -> None:
    """Two neighbouring columns at once where the tensor is aligned, by one instruction."""
    kernel = parse_kernel(ADDED.replace("KIND", kind).replace("ALIGN", str(align)))
    assert verify(kernel) == []
    text = emit_cuda(kernel)
    calls = text.partition("__global__")[2].count
    assert calls("red_global_add") == calls(f"red_global_add_{kind}_{form}(") == count
    assert f"red.relaxed.gpu.global.add.noftz.{kind}x2 [%0], %1;" in text
    compiled = compile_cubin(text)
    assert read_resources(compiled, "added").clean
    pairs = disassemble(compiled.cubin).count(f"REDG.E.ADD.{kind.upper()}x2.RN")
    assert pairs == (4 if align == 4 else 0)
