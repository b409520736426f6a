from __future__ import annotations

import pytest

from passes.load_vectors_first import load_vectors_first
from tests.passes.texts import lowered, unchanged

HEAD = """
param n: i32
param M: i32
param N: i32
global x: f32[M, 1]
global y: f32[1, N]
global z: bf16[M, N] align 4
roles {
  role compute warps 0 .. 4 {
    let row: i32 = n * 64
"""
MAIN = """
    total: frag<f32, 64x192> = frag.fill 0.0
    for k in 0 .. n {
      let twice: i32 = k * 2
    }
"""
TAIL = """
      d: frag<f32, 64x64> = frag.pointwise mul, e, cols
      out: frag<bf16, 64x64> = frag.cast d
      frag.store_global z[row, chunk * 64], out
    }
  }
}
"""
BEFORE = """
    for chunk in 0 .. 3 unroll {
      part: frag<f32, 64x64> = frag.columns total, chunk * 64
      rows: frag<f32, 64x1> = frag.load_global x[row, 0]
      e: frag<f32, 64x64> = frag.pointwise mul, part, rows
      cols: frag<f32, 1x64> = frag.load_global y[0, 8 + chunk * 64]
"""
ROWS = "    rows: frag<f32, 64x1> = frag.load_global x[row, 0]\n"
ROWS_FIRST = BEFORE.replace(f"  {ROWS}", "")
ALL_FIRST = ROWS_FIRST.replace(
    "    for chunk", "    all: frag<f32, 1x192> = frag.load_global y[0, 8]\n    for chunk"
).replace("frag.load_global y[0, 8 + chunk * 64]", "frag.columns all, chunk * 64")


def test_rows_in_front_of_the_main_loop_and_columns_in_front_of_the_chunks() -> None:
    zero, loop = MAIN.split("    for k")
    found = lowered(load_vectors_first, HEAD + MAIN + BEFORE + TAIL, vector_registers=50)
    wanted = HEAD + zero + ROWS + "    for k" + loop + ALL_FIRST + TAIL
    assert found == lowered(load_vectors_first, wanted)


@pytest.mark.parametrize("registers", [2, 17])
def test_what_registers_do_not_hold_stays(registers: int) -> None:
    """A chunk of 64 columns takes 16, two rows 2."""
    zero, loop = MAIN.split("    for k")
    found = lowered(load_vectors_first, HEAD + MAIN + BEFORE + TAIL, vector_registers=registers)
    wanted = HEAD + zero + ROWS + "    for k" + loop + ROWS_FIRST + TAIL
    assert found == lowered(load_vectors_first, wanted)


@pytest.mark.parametrize("registers", [18, 49])
def test_columns_a_chunk_ahead(registers: int) -> None:
    """192 columns take 48, with two rows more than there are."""
    zero, loop = MAIN.split("    for k")
    found = lowered(load_vectors_first, HEAD + MAIN + BEFORE + TAIL, vector_registers=registers)
    first = "    cols_first: frag<f32, 1x64> = frag.load_global y[0, 8]\n    for chunk"
    carried = "carry (cols: frag<f32, 1x64> = cols_first -> cols_rest) unroll"
    cols = "      cols: frag<f32, 1x64> = frag.load_global y[0, 8 + chunk * 64]\n"
    chunks = ROWS_FIRST.replace("    for chunk", first).replace("unroll", carried)
    product = "      d: frag<f32, 64x64> = frag.pointwise mul, e, cols\n"
    ahead = "      next: frag<f32, 1x64> = frag.load_global y[0, 8 + (chunk + 1) * 64]\n"
    stored = "      frag.store_global z[row, chunk * 64], out\n"
    tail = TAIL.replace(product, product + ahead.replace("next", "cols_next"))
    tail = tail.replace(stored, stored + "      yield cols_next\n")
    wanted = HEAD + zero + ROWS + "    for k" + loop + chunks.replace(cols, "") + tail
    assert found == lowered(load_vectors_first, wanted)


@pytest.mark.parametrize("registers", [50, 18])
def test_columns_of_the_tile_that_are_rows_of_the_tensor(registers: int) -> None:
    """All of them, or a chunk ahead, as of others."""
    text = HEAD + MAIN + BEFORE + TAIL
    apart = [
        ("y: f32[1, N]", "y: f32[N, 1]"),
        ("y[0, 8 + chunk * 64]", "y[8 + chunk * 64, 0], trans=true"),
    ]
    behind = [
        ("y[0, 8]", "y[8, 0], trans=true"),
        ("y[0, 8 + (chunk + 1) * 64]", "y[8 + (chunk + 1) * 64, 0], trans=true"),
    ]
    found = lowered(load_vectors_first, _with(text, apart), vector_registers=registers)
    wanted = lowered(load_vectors_first, text, vector_registers=registers)
    assert found == _with(wanted, apart[:1] + behind)


def _with(text: str, changes: list[tuple[str, str]]) -> str:
    for old, new in changes:
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("registers", "ahead"), [(17, []), (18, ["cols"]), (33, ["cols"]), (34, ["cols", "more"])]
)
def test_what_comes_ahead_has_registers_of_its_own(registers: int, ahead: list[str]) -> None:
    """Two rows take 2, a chunk of either columns 16: those of one are no other's."""
    head = HEAD.replace("global z", "global w: f32[1, N]\nglobal z")
    more = "      more: frag<f32, 1x64> = frag.load_global w[0, chunk * 64]\n"
    product = "      d: frag<f32, 64x64> = frag.pointwise mul, e, cols\n"
    both = product.replace(" d:", " both:") + product.replace("mul, e, cols", "add, both, more")
    tail = TAIL.replace(product, both)
    text = head + MAIN + BEFORE + more + tail
    found = lowered(load_vectors_first, text, vector_registers=registers)
    assert [name for name in ("cols", "more") if f"{name}_first" in found] == ahead


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("8 + chunk * 64", "8 + chunk * 128"),
        ("8 + chunk * 64", "chunk // 2"),
        ("8 + chunk * 64]", "8 + chunk * 64], limit=n"),
        ("y[0, 8 + chunk * 64]", "y[0, 8 + chunk * 64], trans=true"),
    ],
)
def test_other_loads_stay(old: str, new: str) -> None:
    """Rows that differ from chunk to chunk; columns apart, unknown, or limited."""
    body = BEFORE.replace("x[row, 0]", "x[chunk * 64, 0]").replace(old, new)
    assert unchanged(load_vectors_first, HEAD + MAIN + body + TAIL, vector_registers=99)


def test_only_where_registers_are_given() -> None:
    assert unchanged(load_vectors_first, HEAD + MAIN + BEFORE + TAIL)


def test_conditions_of_columns_are_loaded_once() -> None:
    """A row of ``pred``, whose columns chunks take, as of any other type."""
    given = """
param n: i32
param N: i32
global y: bool[1, N]
global z: bf16[64, N] align 4
roles {
  role compute warps 0 .. 4 {
    total: frag<f32, 64x192> = frag.fill 0.0
    for chunk in 0 .. 3 unroll {
      part: frag<f32, 64x64> = frag.columns total, chunk * 64
      kept: frag<pred, 1x64> = frag.load_global y[0, chunk * 64]
      d: frag<f32, 64x64> = frag.pointwise where, kept, part, 0.0
      out: frag<bf16, 64x64> = frag.cast d
      frag.store_global z[0, chunk * 64], out
    }
  }
}
"""
    text = lowered(load_vectors_first, given, vector_registers=64)
    assert "all: frag<pred, 1x192> = frag.load_global y[0, 0]" in text
    assert "kept: frag<pred, 1x64> = frag.columns all, chunk * 64" in text
