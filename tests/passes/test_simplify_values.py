"""What simplify drops of an epilogue's values."""

from __future__ import annotations

from lowering.kernel.text import parse_kernel, print_kernel
from passes.simplify import simplify
from tests.passes.texts import full, lowered

DECLARATIONS = """
  param M: i32
  global bias: bf16[1, M] align 4
  shared A_s: bf16[1][64x64] swizzle 128
  shared F_s: f32[1][64x64]
"""


def test_values_that_nobody_reads_go() -> None:
    """With what only they read."""
    used = """
      x: frag<f32, 64x64> = ld.shared F_s[0, 0, 0]
      b: frag<bf16, 1x64> = frag.load_global bias[0, 0]
      y: frag<f32, 64x64> = frag.pointwise add, x, b
      st.shared F_s[0, 0, 0], y
    """
    unused = """
      old: frag<bf16, 64x64> = ldmatrix A_s[0, 0, 0]
      c: frag<bf16, 1x64> = frag.load_global bias[0, 64]
      let col: i32 = M - 64
      z: frag<f32, 64x64> = frag.pointwise add, old, c
      w: frag<bf16, 64x64> = frag.cast z
      last: frag<f32, 64x64> = ld.shared F_s[0, 0, 0]
      low: frag<pred, 64x64> = frag.pointwise lt, last, 0.0
    """
    assert lowered(simplify, DECLARATIONS + unused + used) == normal(DECLARATIONS + used)


def normal(inner: str) -> str:
    """``inner`` as a kernel, in the printer's layout."""
    return print_kernel(parse_kernel(full(inner)))


def test_indices_of_loads_are_simplified() -> None:
    before = """
      let row: i32 = M * 0
      b: frag<bf16, 1x64> = frag.load_global bias[row + 0, 64 + 0]
      y: frag<f32, 64x64> = frag.pointwise add, b, 1.0
      st.shared F_s[row, 0, 0], y
    """
    text = lowered(simplify, DECLARATIONS + before)
    assert "frag.load_global bias[0, 64]" in text and "let row" not in text
